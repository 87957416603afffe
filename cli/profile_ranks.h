#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hethub/comm/messenger.h"

namespace hethub {

// What the ranks of a profile say to each other. All throw as Messenger does.

/// All ranks meet: nobody is measured before the others are where they should be.
void meet(Messenger& messenger, std::uint64_t number);

/// A text of each rank, on rank 0; elsewhere its own alone.
std::vector<std::string> gather_texts(Messenger& messenger, const std::string& mine);

/// A name of each rank, on all ranks; of at most 63 letters.
std::vector<std::string> exchange_names(Messenger& messenger, const std::string& mine);

}  // namespace hethub
