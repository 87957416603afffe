#pragma once

#include <string>
#include <vector>

namespace hethub {

/// The hosts of a list as Slurm writes it, in its order: "n[1-2],b[001,003]" is n1, n2, b001, b003.
/// Several brackets in a name give every combination, the last running fastest. Numbers keep the
/// width that the first of a range has. Throws kInvalidConfig if the list is empty or malformed, a
/// range runs backwards, or there are more than 65536 hosts.
std::vector<std::string> expand_host_list(const std::string& list);

}  // namespace hethub
