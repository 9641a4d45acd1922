"""Rules for a folder of tests."""

load("@rules_python//python:defs.bzl", "py_library", "py_test")

def folder_tests(name, deps = [], test_deps = [], exclude = []):
    """Declares a test for each `*_test.py` in and below a folder, their suite, and a library of the other files.

    Args:
      name: of the library, that of the folder.
      deps: what the library imports.
      test_deps: what only the tests import.
      exclude: files that run in environments of their own.
    """
    folder = native.package_name()
    tests = native.glob(["**/*_test.py"], allow_empty = True)
    py_library(
        name = name,
        srcs = native.glob(["**/*.py"], exclude = tests + exclude, allow_empty = True),
        visibility = ["//:development"],
        deps = deps + ["@pypi_dev//pytest"],
    )
    for test in tests:
        py_test(
            name = test[:-3],
            size = "large",
            srcs = [test],
            args = ["{}/{}".format(folder, test)],
            data = ["//:pyproject.toml"],
            main_module = "pytest",
            deps = [":" + name, "//tests"] + test_deps,
        )
    native.test_suite(
        name = "all_tests",
        tests = [test[:-3] for test in tests],
        visibility = ["//:__subpackages__"],
    )
