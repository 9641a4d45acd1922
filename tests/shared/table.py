"""Tables on a terminal."""

from pipeline.report import terminal


def show(rows: list[dict[str, object]]) -> None:
    """Prints `rows` with their keys as the header."""
    cells = [[f"{v:.4f}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    print("\n".join(terminal.aligned([list(rows[0]), *cells])))
