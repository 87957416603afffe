/* Times MPI_Allreduce (float, sum, in place) and messages both ways at once between ranks 0 and 1, as
 * `hethub bench comm` does: five batches, of each the slowest rank, of these the median. Messages rotate
 * through memory, as they do there, so that each one meets bytes that are out of cache.
 *
 *     mpirun -n 2 mpi SECONDS BYTES...      one JSON object a line
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBatches = 5, kWarmUps = 5, kRotated = 64 << 20 };

static float* data;
static char* sent;
static char* received;
static int rank;

static void all_reduce(int bytes) {
  MPI_Allreduce(MPI_IN_PLACE, data, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void exchange(int bytes) {
  static size_t at = 0;
  if (rank > 1) return;
  if (at + (size_t)bytes > kRotated) at = 0;
  MPI_Sendrecv(sent + at, bytes, MPI_BYTE, 1 - rank, 0, received + at, bytes, MPI_BYTE, 1 - rank, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  at += (size_t)bytes;
}

static int compare(const void* first, const void* second) {
  const double difference = *(const double*)first - *(const double*)second;
  return (difference > 0) - (difference < 0);
}

static double time_of(void (*call)(int), int bytes, double seconds) {
  for (int repeat = 0; repeat < kWarmUps; ++repeat) call(bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  for (int repeat = 0; repeat < kWarmUps; ++repeat) call(bytes);
  const double each = (MPI_Wtime() - begin) / kWarmUps;
  int calls = each > 0 ? (int)(seconds / kBatches / each) : 20000;
  calls = calls < 1 ? 1 : calls > 20000 ? 20000 : calls;
  MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
  double batches[kBatches];
  for (int batch = 0; batch < kBatches; ++batch) {
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (int repeat = 0; repeat < calls; ++repeat) call(bytes);
    batches[batch] = (MPI_Wtime() - begin) / calls;
  }
  MPI_Allreduce(MPI_IN_PLACE, batches, kBatches, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  qsort(batches, kBatches, sizeof *batches, compare);
  return batches[kBatches / 2];
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double seconds = argc > 1 ? atof(argv[1]) : 0.25;
  sent = aligned_alloc(4096, kRotated);
  received = aligned_alloc(4096, kRotated);
  memset(sent, 1, kRotated);
  memset(received, 1, kRotated);
  for (int at = 2; at < argc; ++at) {
    const int bytes = atoi(argv[at]);
    data = aligned_alloc(4096, (size_t)bytes + 4096);
    memset(data, 0, (size_t)bytes);
    const double reduce = time_of(all_reduce, bytes, seconds);
    const double message = time_of(exchange, bytes, seconds);
    if (rank == 0) {
      printf("{\"bytes\": %d, \"all_reduce\": %.9f, \"send_recv\": %.9f}\n", bytes, reduce, message);
      fflush(stdout);
    }
    free(data);
  }
  MPI_Finalize();
  return 0;
}
