/* Makes every sync of a program take at least BENCH_SYNC_US microseconds: preloaded by `python -m bench --sync-ms`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static __thread int exact;

static void wait_until(struct timespec began)
{
    const char *told = getenv("BENCH_SYNC_US");
    long nanoseconds = told ? atol(told) * 1000 : 0;
    if (!exact) { /* without this the kernel adds up to 50 microseconds to a sleep */
        prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
        exact = 1;
    }
    began.tv_nsec += nanoseconds;
    began.tv_sec += began.tv_nsec / 1000000000L;
    began.tv_nsec %= 1000000000L;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &began, NULL);
}

static int slowly(const char *name, int file)
{
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct timespec began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    int result = sync(file);
    wait_until(began);
    return result;
}

int fsync(int file) { return slowly("fsync", file); }
int fdatasync(int file) { return slowly("fdatasync", file); }
