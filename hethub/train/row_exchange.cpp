#include "hethub/train/row_exchange.h"

#include <algorithm>
#include <span>

#include "hethub/base/error.h"
#include "hethub/base/split.h"

namespace hethub {
namespace {

IndexRange experts_of(const GroupStart& op, int member) {
  return part_of(op.exchange.experts, op.ranks, member);
}

}  // namespace

void RowExchanger::make_ready(const GroupStart& op) {
  const auto grow = [](auto& values, std::int64_t size) {
    values.resize(std::max(values.size(), static_cast<std::size_t>(size)));
  };
  grow(starts_, op.ranks * (op.exchange.experts + 1));
  grow(pieces_, op.ranks * op.exchange.experts);
  grow(begins_, op.exchange.held + 1);
  requests_.reserve(2 * static_cast<std::size_t>(op.exchange.experts));
}

std::int64_t RowExchanger::start_of(const GroupStart& op, int member, std::int64_t expert) const {
  return starts_[static_cast<std::size_t>(member * (op.exchange.experts + 1) + expert)];
}

const RowExchanger::Piece& RowExchanger::piece(const GroupStart& op, int member,
                                               std::int64_t expert) const {
  return pieces_[static_cast<std::size_t>(member * op.exchange.experts + expert)];
}

// All members find the same: where each piece lies at both of its ends.
void RowExchanger::locate(const GroupStart& op) {
  for (int holder = 0; holder < op.ranks; ++holder) {
    const IndexRange held = experts_of(op, holder);
    const std::int64_t room = op.exchange.slots(held.size());
    std::int64_t next = 0;
    for (std::int64_t expert = held.begin; expert < held.end; ++expert) {
      for (int member = 0; member < op.ranks; ++member) {
        const std::int64_t first = start_of(op, member, expert);
        const std::int64_t rows = start_of(op, member, expert + 1) - first;
        require(first >= 0 && rows >= 0, [&] {
          return ErrorParts{.what = text("exchange of rows: expert ", expert, " of ",
                                         op.exchange.experts, ", member ", member),
                            .found = text("rows ", first, " to ", first + rows),
                            .expected = "places that ascend from 0",
                            .fix = "check the device of that rank with 'hethub verify'"};
        });
        Piece& one = pieces_[static_cast<std::size_t>(member * op.exchange.experts + expert)];
        one = {first, next, std::min({rows, op.exchange.most, room - next})};
        next += one.rows;
      }
    }
  }
}

View RowExchanger::part(const GroupStart& op, DType dtype, const Place& place,
                        const Piece& piece) const {
  const std::int64_t row = op.exchange.width * size_of(dtype);
  return place.data.slice((place.listed ? piece.listed : piece.held) * row, piece.rows * row);
}

template <typename Each>
void RowExchanger::for_pieces(const GroupStart& op, int giver, int taker, const Each& each) const {
  const int holder = op.exchange.returns ? giver : taker;
  const int member = op.exchange.returns ? taker : giver;
  const IndexRange held = experts_of(op, holder);
  for (std::int64_t expert = held.begin; expert < held.end; ++expert) {
    const Piece& one = piece(op, member, expert);
    if (one.rows > 0) each(one);
  }
}

void RowExchanger::run(const GroupStart& op, DType dtype, const GroupOperands& operands,
                       Communicator& group) {
  const auto starts = static_cast<std::size_t>(op.ranks * (op.exchange.experts + 1));
  queue_.download(operands.inputs[1], std::as_writable_bytes(std::span(starts_.data(), starts)));
  queue_.synchronize(deadline());
  locate(op);
  if (!op.exchange.returns) write_begins(op, group.rank(), operands.outputs[1]);
  const Place from{operands.inputs[0], !op.exchange.returns};
  const Place to{operands.outputs[0], op.exchange.returns};
  const int me = group.rank();
  for_pieces(op, me, me, [&](const Piece& one) {
    queue_.copy(part(op, dtype, from, one), part(op, dtype, to, one));
  });
  for (int round = 1; round < op.ranks; ++round) {
    const int before = (me + op.ranks - round) % op.ranks;
    const int after = (me + round) % op.ranks;
    for_pieces(op, before, me, [&](const Piece& one) {
      requests_.push_back(group.recv(before, 0, part(op, dtype, to, one)));
    });
    for_pieces(op, me, after, [&](const Piece& one) {
      requests_.push_back(group.send(after, 0, part(op, dtype, from, one)));
    });
    for (Request& request : requests_) {
      request.wait(deadline());
    }
    requests_.clear();
  }
}

void RowExchanger::write_begins(const GroupStart& op, int me, View to) {
  const IndexRange mine = experts_of(op, me);
  const std::span begins(begins_.data(), static_cast<std::size_t>(mine.size() + 1));
  for (std::int64_t expert = mine.begin; expert < mine.end; ++expert) {
    begins[static_cast<std::size_t>(expert - mine.begin)] =
        static_cast<std::int32_t>(piece(op, 0, expert).held);
  }
  const Piece& last = piece(op, op.ranks - 1, mine.end - 1);
  begins.back() = static_cast<std::int32_t>(last.held + last.rows);
  queue_.upload(std::as_bytes(begins), to);
}

MessageNeeds exchange_needs(const RankPlan& rank) {
  MessageNeeds needs;
  for (const Program& program : rank.programs) {
    for (const Instruction& instruction : program.forward) {
      const auto* op = std::get_if<GroupStart>(&instruction.op.body);
      if (op == nullptr || op->kind != GroupKind::kAllToAll) continue;
      const auto held = static_cast<int>(experts_of(*op, 0).size());
      needs.messages = std::max(needs.messages, 2 * held);
      needs.longest_bytes = std::max(needs.longest_bytes, op->exchange.most * op->exchange.width *
                                                              size_of(instruction.op.dtype));
    }
  }
  return needs;
}

}  // namespace hethub
