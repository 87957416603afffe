#pragma once

#include <string>

#include "hethub/data/sample_source.h"

namespace hethub {

/// A digest of a stream of samples: their length, how many there are, and the first one's tokens.
std::string digest_of(const SampleSource& samples);

}  // namespace hethub
