#include "tests/fuzz/bound.h"

// Sanitizers have an allocator of their own, which libFuzzer bounds (-malloc_limit_mb).
void hethub::bound_allocations() {}
