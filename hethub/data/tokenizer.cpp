#include "hethub/data/tokenizer.h"

#include "hethub/base/error.h"

namespace hethub {
namespace {

class ByteTokenizer : public Tokenizer {
 public:
  std::int64_t vocabulary_size() const override { return kByteVocabularySize; }
  std::int32_t end_of_document() const override { return kByteEndOfDocument; }
  void append_tokens(std::string_view text, std::vector<std::int32_t>& tokens) const override {
    tokens.reserve(tokens.size() + text.size());
    for (const char byte : text) {
      tokens.push_back(static_cast<unsigned char>(byte));
    }
  }
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  if (name.ends_with(".model")) return open_sentencepiece(name);
  throw Error(ErrorCode::kUnsupported,
              {.what = "--tokenizer",
               .found = name.ends_with(".json") ? text(name, ", a tokenizer.json file")
                                                : text("\"", name, "\""),
               .expected = "bytes, or a SentencePiece file that ends in .model",
               .fix = "use the model's tokenizer.model if it has one, or tokenize elsewhere and "
                      "bring Megatron .bin and .idx files"});
}

}  // namespace hethub
