/* Preloaded into the gateway: its wall clock is off by what a file says.
 * MQGATE_CLOCK_FILE names a file that holds a signed 64-bit count of seconds, in this machine's byte order. It is mapped,
 * so that what is written into it counts at once. Other clocks are left alone: they do not jump. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *off;

__attribute__((constructor)) static void map(void) {
    const char *path = getenv("MQGATE_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *off, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) off = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && clock == CLOCK_REALTIME && off) now->tv_sec += *off;
    return (int)result;
}
