// Slows reads of the shards in a folder, and fails some of them: preloaded, it stands before libc's.
//
//   SLOW_FOLDER      real path of the folder; without it, nothing is slowed
//   SLOW_US          microseconds that a read takes longer
//   SLOW_FAIL_EVERY  every so many reads, one gives EIO; 0: none does

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// The shards in the folder as the process began: to ask for a path at each read costs more.
static struct stat shards[1024];
static int count;
static long wait_us, fail_every;
static atomic_ulong reads;

__attribute__((constructor)) static void set_up(void) {
  const char *folder = getenv("SLOW_FOLDER"), *wait = getenv("SLOW_US"), *every = getenv("SLOW_FAIL_EVERY");
  DIR *files = folder ? opendir(folder) : NULL;
  for (struct dirent *file; files && (file = readdir(files));) {
    if (!strstr(file->d_name, ".tfrecord")) continue;
    if (count == 1024 || fstatat(dirfd(files), file->d_name, &shards[count++], 0)) abort();
  }
  if (files) closedir(files);
  wait_us = wait ? atol(wait) : 0;
  fail_every = every ? atol(every) : 0;
}

static int is_shard(int file) {
  struct stat status;
  if (!count || fstat(file, &status)) return 0;
  for (int i = 0; i < count; ++i)
    if (shards[i].st_ino == status.st_ino && shards[i].st_dev == status.st_dev) return 1;
  return 0;
}

// Whether the read is to fail, after its wait.
static int slowed(int file) {
  if (!is_shard(file)) return 0;
  struct timespec wait = {wait_us / 1000000, wait_us % 1000000 * 1000};
  nanosleep(&wait, NULL);
  return fail_every && (atomic_fetch_add(&reads, 1) + 1) % fail_every == 0;
}

#define SLOWED(name, parameters, arguments, file)                                \
  ssize_t name parameters {                                                      \
    static ssize_t(*real) parameters;                                            \
    if (!real) real = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name);            \
    if (slowed(file)) {                                                          \
      errno = EIO;                                                               \
      return -1;                                                                 \
    }                                                                            \
    return real arguments;                                                       \
  }

SLOWED(read, (int file, void *to, size_t size), (file, to, size), file)
SLOWED(pread, (int file, void *to, size_t size, off_t at), (file, to, size, at), file)
SLOWED(pread64, (int file, void *to, size_t size, off64_t at), (file, to, size, at), file)
