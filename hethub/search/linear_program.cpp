#include "hethub/search/linear_program.h"

#include <limits>

namespace hethub {
namespace {

constexpr double kTiny = 1e-11;

// The tableau restricted to the basis: its inverse, kept up to date by row operations.
class Simplex {
 public:
  Simplex(const std::vector<LinearColumn>& columns, const std::vector<double>& resources)
      : columns_(columns), amounts_(resources), rows_(resources.size()) {
    for (std::size_t row = 0; row < rows_; ++row) {
      basis_.push_back(-1);
      inverse_.emplace_back(rows_, 0.0)[row] = 1;
    }
  }

  // Dantzig's rule; the first column by number after many steps, which cannot cycle.
  bool step(bool careful) {
    price();
    int enters = -1;
    double best = 0;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const double more = reduced_gain(columns_[column]);
      if (more <= kTiny + 1e-10 * columns_[column].gain || more <= best) continue;
      best = more;
      enters = static_cast<int>(column);
      if (careful) break;
    }
    int slack = -1;
    for (std::size_t row = 0; row < rows_; ++row) {  // giving a resource back gains, too
      if (prices_[row] < -kTiny && -prices_[row] > best) {
        best = -prices_[row];
        slack = static_cast<int>(row);
      }
    }
    if (slack < 0 && enters < 0) return false;
    enter(slack < 0 ? enters : -1, slack);
    return true;
  }

  LinearSolution solution() {
    price();
    LinearSolution found{.amounts = std::vector<double>(columns_.size(), 0.0), .prices = prices_};
    for (std::size_t row = 0; row < rows_; ++row) {
      if (basis_[row] < 0) continue;
      found.amounts[basis_[row]] = amounts_[row];
      found.gain += amounts_[row] * columns_[basis_[row]].gain;
    }
    for (double& one : found.prices) {
      if (one < 0) one = 0;
    }
    return found;
  }

 private:
  void price() {
    prices_.assign(rows_, 0);
    for (std::size_t row = 0; row < rows_; ++row) {
      if (basis_[row] < 0) continue;
      for (std::size_t resource = 0; resource < rows_; ++resource) {
        prices_[resource] += columns_[basis_[row]].gain * inverse_[row][resource];
      }
    }
  }

  double reduced_gain(const LinearColumn& column) const {
    double gain = column.gain;
    for (std::size_t resource = 0; resource < rows_; ++resource) {
      gain -= prices_[resource] * column.uses[resource];
    }
    return gain;
  }

  void enter(int column, int slack) {
    std::vector<double> direction(rows_, 0);
    for (std::size_t row = 0; row < rows_; ++row) {
      if (column < 0) {
        direction[row] = inverse_[row][slack];
        continue;
      }
      for (std::size_t resource = 0; resource < rows_; ++resource) {
        direction[row] += inverse_[row][resource] * columns_[column].uses[resource];
      }
    }
    std::size_t leaves = rows_;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t row = 0; row < rows_; ++row) {
      if (direction[row] <= kTiny || amounts_[row] / direction[row] >= least) continue;
      least = amounts_[row] / direction[row];
      leaves = row;
    }
    if (leaves == rows_) return;  // a column that uses nothing: see the contract
    const double pivot = direction[leaves];
    for (double& value : inverse_[leaves]) {
      value /= pivot;
    }
    amounts_[leaves] = least;
    for (std::size_t row = 0; row < rows_; ++row) {
      if (row == leaves) continue;
      for (std::size_t resource = 0; resource < rows_; ++resource) {
        inverse_[row][resource] -= direction[row] * inverse_[leaves][resource];
      }
      amounts_[row] = amounts_[row] - direction[row] * least;
      if (amounts_[row] < 0) amounts_[row] = 0;
    }
    basis_[leaves] = column;
  }

  const std::vector<LinearColumn>& columns_;
  std::vector<double> amounts_;  // of each row's column
  std::size_t rows_;
  std::vector<int> basis_ = {};  // the column of each row; -1: what is left of some resource
  std::vector<std::vector<double>> inverse_ = {};
  std::vector<double> prices_ = {};
};

}  // namespace

LinearSolution solve(const std::vector<LinearColumn>& columns,
                     const std::vector<double>& resources) {
  constexpr int kMostSteps = 2000;
  constexpr int kCareful = 500;
  Simplex simplex(columns, resources);
  for (int step = 0; step < kMostSteps && simplex.step(step > kCareful); ++step) {
  }
  return simplex.solution();
}

}  // namespace hethub
