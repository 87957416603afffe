#pragma once

#include <vector>

namespace hethub {

/// A variable of a LinearProgram: what a unit of it gains, and uses of each resource.
struct LinearColumn {
  double gain = 0;
  std::vector<double> uses = {};  ///< none negative
};

/// The greatest gain, the amounts that reach it and the price of a unit of each resource.
struct LinearSolution {
  double gain = 0;
  std::vector<double> amounts = {};  ///< by column
  std::vector<double> prices = {};   ///< by resource; none negative
};

/// Amounts >= 0 of the columns with the greatest gain for which the resources suffice, by the
/// revised simplex method. Every column with a gain must use some resource. For few resources: the
/// basis is inverted by Gauss' rule at each step.
LinearSolution solve(const std::vector<LinearColumn>& columns,
                     const std::vector<double>& resources);

}  // namespace hethub
