// Lets file operations under a folder fail, in every process that is started with it:
// LD_PRELOAD, FAULTS_ROOT (the folder) and FAULTS_CONTROL (16 bytes that faults.py writes, see
// `Control` there).

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct control {
  int32_t error, left, hits, unused;
};
static struct control *control;
static char root[PATH_MAX];

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("FAULTS_CONTROL"), *folder = getenv("FAULTS_ROOT");
  int fd = path && folder && realpath(folder, root) ? open(path, O_RDWR) : -1;
  void *found = fd < 0 ? MAP_FAILED
                       : mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  if (found != MAP_FAILED) control = found;
}

static int fails(const char *path) {
  if (!control || !control->error) return 0;
  char whole[PATH_MAX];
  if (path[0] != '/' && getcwd(whole, sizeof whole)) path = whole;
  size_t length = strlen(root);
  if (strncmp(path, root, length) != 0) return 0;
  if (path[length] != '/' && path[length] != 0) return 0;  // a neighbour of a longer name
  if (__sync_fetch_and_sub(&control->left, 1) <= 0) return 0;
  __sync_fetch_and_add(&control->hits, 1);
  errno = control->error;
  return 1;
}

static int fails_fd(int fd) {
  if (!control || !control->error) return 0;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0 || path[0] != '/') return 0;  // a pipe, a socket
  path[length] = 0;
  return fails(path);
}

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size) {
  return fails_fd(fd) ? -1 : REAL(write)(fd, data, size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
  return fails_fd(fd) ? -1 : REAL(pwrite)(fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
  return fails_fd(fd) ? -1 : REAL(pwrite64)(fd, data, size, offset);
}
int fsync(int fd) { return fails_fd(fd) ? -1 : REAL(fsync)(fd); }
int rename(const char *from, const char *to) { return fails(to) ? -1 : REAL(rename)(from, to); }
int renameat(int a, const char *from, int b, const char *to) {
  return fails(to) ? -1 : REAL(renameat)(a, from, b, to);
}
int mkdir(const char *path, mode_t mode) { return fails(path) ? -1 : REAL(mkdir)(path, mode); }
