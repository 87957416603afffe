/* Prints the nanoseconds that a cache line takes from core 0 to core 1 and back, the median of many
 * batches: a machine that others use at this moment shows here. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kBatches = 101, kTurns = 500 };

static _Alignas(64) atomic_int turn;

static void bind_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

static void* answer(void* unused) {
  (void)unused;
  bind_to(1);
  for (int repeat = 0; repeat < kBatches * kTurns; ++repeat) {
    while (atomic_load(&turn) != 1) {
    }
    atomic_store(&turn, 0);
  }
  return NULL;
}

static int compare(const void* first, const void* second) {
  const double difference = *(const double*)first - *(const double*)second;
  return (difference > 0) - (difference < 0);
}

int main(void) {
  pthread_t thread;
  double batches[kBatches];
  bind_to(0);
  pthread_create(&thread, NULL, answer, NULL);
  for (int batch = 0; batch < kBatches; ++batch) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int repeat = 0; repeat < kTurns; ++repeat) {
      atomic_store(&turn, 1);
      while (atomic_load(&turn) != 0) {
      }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    batches[batch] =
        ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / kTurns;
  }
  pthread_join(thread, NULL);
  qsort(batches, kBatches, sizeof *batches, compare);
  printf("%.1f\n", batches[kBatches / 2]);
  return 0;
}
