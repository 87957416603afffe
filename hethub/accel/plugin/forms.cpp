#include "hethub/accel/plugin/forms.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>

namespace hethub {
namespace {

// The fields of every op in the order of its struct: one list for both directions. `op` is T& or
// const T&, and `visit` takes each field.
template <typename Body, typename Visit>
void each_field(Body& op, Visit& visit) {
  using T = std::remove_const_t<Body>;
  if constexpr (std::is_same_v<T, Linear>) {
    visit(op.rows), visit(op.in), visit(op.out), visit(op.bias);
  } else if constexpr (std::is_same_v<T, LinearGradInput> || std::is_same_v<T, LinearGradWeight>) {
    visit(op.rows), visit(op.in), visit(op.out);
  } else if constexpr (std::is_same_v<T, Embedding> || std::is_same_v<T, EmbeddingGrad>) {
    visit(op.rows), visit(op.vocab), visit(op.width), visit(op.first), visit(op.of);
  } else if constexpr (std::is_same_v<T, RmsNorm> || std::is_same_v<T, LayerNorm>) {
    visit(op.rows), visit(op.width), visit(op.eps);
  } else if constexpr (std::is_same_v<T, Rope>) {
    visit(op.rows), visit(op.heads), visit(op.head_dim), visit(op.table_rows), visit(op.inverse);
  } else if constexpr (std::is_same_v<T, Attention>) {
    visit(op.batch), visit(op.seq), visit(op.heads), visit(op.kv_heads), visit(op.head_dim);
    visit(op.window), visit(op.documents);
  } else if constexpr (std::is_same_v<T, AttentionGrad> || std::is_same_v<T, RouterGrad>) {
    each_field(op.forward, visit);
  } else if constexpr (std::is_same_v<T, CrossEntropy>) {
    visit(op.rows), visit(op.vocab), visit(op.z);
  } else if constexpr (std::is_same_v<T, CrossEntropyPart>) {
    visit(op.rows), visit(op.vocab), visit(op.first), visit(op.of), visit(op.parts), visit(op.z);
  } else if constexpr (std::is_same_v<T, CrossEntropyGrad>) {
    visit(op.rows), visit(op.vocab), visit(op.first), visit(op.of), visit(op.z);
  } else if constexpr (std::is_same_v<T, Router>) {
    visit(op.rows), visit(op.experts), visit(op.top), visit(op.sequence), visit(op.balance);
  } else if constexpr (std::is_same_v<T, SortChoices>) {
    visit(op.rows), visit(op.top), visit(op.first), visit(op.held);
  } else if constexpr (std::is_same_v<T, TakeRows> || std::is_same_v<T, SumRows>) {
    visit(op.rows), visit(op.width), visit(op.top), visit(op.slots), visit(op.weighted);
  } else if constexpr (std::is_same_v<T, SumRowsGradWeight>) {
    visit(op.rows), visit(op.width), visit(op.top), visit(op.slots);
  } else if constexpr (requires { op.load; }) {
    visit(op.slots), visit(op.in), visit(op.out), visit(op.experts), visit(op.load);
  } else if constexpr (std::is_same_v<T, Fill>) {
    visit(op.count), visit(op.value);
  } else if constexpr (std::is_same_v<T, Accumulate>) {
    visit(op.count), visit(op.terms), visit(op.stride), visit(op.reduction), visit(op.divisor);
  } else if constexpr (std::is_same_v<T, AdamW>) {
    visit(op.count), visit(op.decay);
  } else if constexpr (std::is_same_v<T, GroupStart>) {
    visit(op.kind), visit(op.group), visit(op.in_count), visit(op.out_count);
    visit(op.ranks), visit(op.scratch);
  } else if constexpr (requires { op.width; }) {
    visit(op.rows), visit(op.width);  // the other ops on rows
  } else {
    visit(op.count);  // the other ops on vectors
  }
}

struct Writer {
  HethubOp& form;
  int next = 0;

  void operator()(double field) { form.value = field; }
  template <typename T>
  void operator()(const T& field) {
    form.sizes[next++] = static_cast<std::int64_t>(field);
  }
};

struct Reader {
  const HethubOp& form;
  int next = 0;

  void operator()(double& field) { field = form.value; }
  template <typename T>
  void operator()(T& field) {
    field = static_cast<T>(form.sizes[next++]);
  }
};

// The body of the kind that `form` names, if it is one of the variant's from `kIndex` on.
template <std::size_t kIndex = 0>
std::optional<OpBody> body_of(const HethubOp& form) {
  if constexpr (kIndex < std::variant_size_v<OpBody>) {
    std::variant_alternative_t<kIndex, OpBody> body;
    if (facts_of({.body = body}).kind != form.kind) return body_of<kIndex + 1>(form);
    Reader reader{form};
    each_field(body, reader);
    return body;
  } else {
    return std::nullopt;
  }
}

template <std::size_t kBytes>
void put(char (&place)[kBytes], std::string_view words) {
  const std::size_t length = std::min(words.size(), kBytes - 1);
  std::memcpy(place, words.data(), length);
  place[length] = 0;
}

// What another's code filled in may lack its end.
template <std::size_t kBytes>
std::string words_of(const char (&place)[kBytes]) {
  return {place, std::find(place, place + kBytes, '\0')};
}

[[noreturn]] void refuse(const HethubOp& form, std::string found) {
  throw Error(ErrorCode::kUnsupported, {.what = text("plug-in: op '", form.name, "'"),
                                        .found = std::move(found),
                                        .expected = "one that this plug-in knows",
                                        .fix = "build the plug-in from the program's sources"});
}

}  // namespace

HethubOp form_of(const Op& op) {
  HethubOp form = {.name = op.name.c_str(),
                   .kind = facts_of(op).kind.data(),
                   .dtype = name_of(op.dtype).data(),
                   .sizes = {},
                   .value = 0};
  Writer writer{form};
  std::visit([&](const auto& body) { each_field(body, writer); }, op.body);
  return form;
}

Op op_of(const HethubOp& form) {
  const auto type = std::find_if(kDTypes.begin(), kDTypes.end(),
                                 [&](const DTypeRow& row) { return row.name == form.dtype; });
  if (type == kDTypes.end()) refuse(form, text("dtype ", form.dtype));
  const std::optional<OpBody> body = body_of(form);
  if (!body) refuse(form, text("the kind ", form.kind));
  return {form.name, static_cast<DType>(type - kDTypes.begin()), *body};
}

HethubDevice form_of(const FoundDevice& device) {
  HethubDevice form = {};
  put(form.backend, device.backend);
  put(form.kind, device.info.kind);
  put(form.name, device.info.name);
  put(form.driver, device.info.driver);
  put(form.problem, device.problem);
  form.memory_bytes = device.info.memory_bytes;
  form.device = device.device;
  return form;
}

FoundDevice device_of(const HethubDevice& form) {
  return {.backend = words_of(form.backend),
          .device = form.device,
          .info = {.backend = words_of(form.backend),
                   .kind = words_of(form.kind),
                   .name = words_of(form.name),
                   .memory_bytes = form.memory_bytes,
                   .driver = words_of(form.driver)},
          .problem = words_of(form.problem)};
}

void fill(HethubError& form, const Error& error) {
  put(form.code, name_of(error.code()));
  put(form.what, error.parts().what);
  put(form.found, error.parts().found);
  put(form.expected, error.parts().expected);
  put(form.fix, error.parts().fix);
}

Error error_of(const HethubError& form) {
  const std::string code = words_of(form.code);
  auto known = ErrorCode::kInternal;
  for (int value = 0; value <= static_cast<int>(ErrorCode::kInternal); ++value) {
    const auto each = static_cast<ErrorCode>(value);
    if (name_of(each) == code) known = each;
  }
  const auto part = [](std::string words) { return words.empty() ? "nothing said" : words; };
  return {known,
          {.what = part(words_of(form.what)),
           .found = part(words_of(form.found)),
           .expected = part(words_of(form.expected)),
           .fix = part(words_of(form.fix))}};
}

}  // namespace hethub
