#include <algorithm>
#include <array>

#include "hethub/base/files.h"
#include "hethub/base/text.h"
#include "hethub/report/charts.h"

namespace hethub {
namespace {

constexpr double kWidth = 1240;
constexpr double kLeft = 190;
constexpr double kRight = 110;
constexpr double kTop = 28;
constexpr double kRow = 34;

struct Part {
  std::string_view name = {};
  std::int64_t bytes = 0;
};

std::array<Part, 6> parts_of(const RankMemory& memory) {
  return {{{"parameters", memory.parameters},
           {"gradients", memory.gradients},
           {"optimizer state", memory.optimizer},
           {"micro-batches in flight (lanes)", memory.lanes},
           {"one action (shared)", memory.shared},
           {"rest", memory.rest()}}};
}

void write_legend(SvgWriter& svg) {
  double x = kLeft;
  int index = 0;
  for (const Part& part : parts_of({})) {
    svg.rect({x, 4, 12, 12}, text("memory-", index++));
    svg.text({x + 18, 14}, part.name);
    x += 44 + 6.6 * static_cast<double>(part.name.size());
  }
}

}  // namespace

std::string memory_bars_svg(const std::vector<RankMemory>& memory) {
  SvgWriter svg(kWidth, kTop + kRow * static_cast<double>(memory.size()) + 4,
                "what fills each rank's arena");
  write_legend(svg);
  std::int64_t most = 1;
  for (const RankMemory& rank : memory) {
    most = std::max(most, rank.arena);
  }
  double y = kTop;
  for (const RankMemory& rank : memory) {
    svg.text({0, y + 20}, shortened(text("rank ", rank.rank, " (", rank.kind, ")"), 26), "strong");
    double x = kLeft;
    int index = 0;
    for (const Part& part : parts_of(rank)) {
      const double share = static_cast<double>(part.bytes) / static_cast<double>(most);
      const double width = std::max(share * (kWidth - kLeft - kRight), 0.0);
      svg.rect({x, y + 4, width, kRow - 10}, text("memory-", index++),
               text(part.name, ": ", bytes_text(static_cast<double>(part.bytes))));
      x += width;
    }
    svg.text({x + 8, y + 20}, bytes_text(static_cast<double>(rank.arena)));
    y += kRow;
  }
  return std::move(svg).finish();
}

}  // namespace hethub
