/* Preloaded into the gateway: delays fsync and fdatasync, or makes them fail, as a file says.
 * MQGATE_SYNC_FILE names a file whose text is "<milliseconds>" or "fail"; empty or missing: no change.
 * Every call appends a line to MQGATE_SYNC_LOG when it returns: the monotonic nanosecond, the position in the file when it
 * was called, and the file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int obey(int fd, const char *name) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    char text[32] = {0};
    const char *path = getenv("MQGATE_SYNC_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
        close(file);
    }
    if (strncmp(text, "fail", 4) == 0) {
        errno = EIO;
        return -1;
    }
    off_t position = lseek(fd, 0, SEEK_CUR);
    long ms = atol(text);
    if (ms > 0) {
        struct timespec wait = {ms / 1000, (ms % 1000) * 1000000L};
        nanosleep(&wait, NULL);
    }
    int result = real(fd);
    const char *log = getenv("MQGATE_SYNC_LOG");
    int out = log ? open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
    if (out >= 0) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        char link[32], file[PATH_MAX] = {0};
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, file, sizeof file - 1) < 0) file[0] = 0;
        dprintf(out, "%lld %lld %s\n", now.tv_sec * 1000000000LL + now.tv_nsec, (long long)position, file);
        close(out);
    }
    return result;
}

int fsync(int fd) { return obey(fd, "fsync"); }
int fdatasync(int fd) { return obey(fd, "fdatasync"); }
