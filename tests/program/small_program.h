#pragma once

#include "hethub/base/text.h"
#include "hethub/program/program.h"

namespace hethub {

inline constexpr std::int64_t kRows = 48;
inline constexpr std::int64_t kWidth = 64;
inline constexpr std::int64_t kInner = 160;

inline int add_linear(Program& p, const std::string& name, int x, int w, std::int64_t in,
                      std::int64_t out, int layer) {
  return append(p, p.forward, {name, DType::kF32, Linear{kRows, in, out}}, {x, w}, layer)[0];
}

/// x + down(silu(gate(x)) * up(x)), `layers` times.
inline int add_layers(Program& p, int x, int layers, int first_layer) {
  for (int layer = first_layer; layer < first_layer + layers; ++layer) {
    const std::string at = text("layer", layer, ".");
    const auto weight = [&](const char* name, std::int64_t out, std::int64_t in) {
      return p.add_value(at + name + "_w", {DType::kF32, {out, in}}, ValueRole::kParameter);
    };
    const int gate =
        add_linear(p, at + "gate", x, weight("gate", kInner, kWidth), kWidth, kInner, layer);
    const int up = add_linear(p, at + "up", x, weight("up", kInner, kWidth), kWidth, kInner, layer);
    const int act = append(p, p.forward, {at + "act", DType::kF32, SiluMul{kRows, kInner}},
                           {gate, up}, layer)[0];
    const int down =
        add_linear(p, at + "down", act, weight("down", kWidth, kInner), kInner, kWidth, layer);
    x = append(p, p.forward, {at + "sum", DType::kF32, Add{kRows * kWidth}}, {x, down}, layer)[0];
  }
  return x;
}

/// A whole model: x·w0ᵀ, layers, ·w0ᵀ again, cross-entropy.
inline Program small_program(int layers, int first_layer) {
  Program p{.name = "small"};
  const int x = p.add_value("x", {DType::kF32, {kRows, kWidth}}, ValueRole::kInput);
  const int labels = p.add_value("labels", {DType::kI32, {kRows}}, ValueRole::kInput);
  const int w0 = p.add_value("w0", {DType::kF32, {kWidth, kWidth}}, ValueRole::kParameter);
  int h = add_linear(p, "in", x, w0, kWidth, kWidth, -1);
  h = add_layers(p, h, layers, first_layer);
  h = add_linear(p, "head", h, w0, kWidth, kWidth, -1);
  p.losses =
      append(p, p.forward, {"loss", DType::kF32, CrossEntropy{kRows, kWidth}}, {h, labels}, -1)[0];
  return p;
}

/// A middle slice of `layers` layers.
inline Program small_slice(int layers) {
  Program p{.name = "slice"};
  p.received_activation =
      p.add_value("received", {DType::kF32, {kRows, kWidth}}, ValueRole::kReceived);
  p.sent_activation = add_layers(p, p.received_activation, layers, 0);
  return p;
}

}  // namespace hethub
