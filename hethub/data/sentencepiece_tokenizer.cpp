#include <sentencepiece_processor.h>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/data/tokenizer.h"

namespace hethub {
namespace {

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::string& path) : path_(path) {
    const auto status = processor_.LoadFromSerializedProto(read_file(path));
    if (status.ok() && processor_.GetPieceSize() > 0) return;
    throw Error(ErrorCode::kCorruptData,
                {.what = path,
                 .found = text("no SentencePiece model (", status.ToString(), ")"),
                 .expected = "a file made by spm_train",
                 .fix = "fetch the file again"});
  }

  std::int64_t vocabulary_size() const override { return processor_.GetPieceSize(); }
  std::int32_t end_of_document() const override { return processor_.eos_id(); }

  void append_tokens(std::string_view piece, std::vector<std::int32_t>& tokens) const override {
    std::vector<int> ids;
    const auto status = processor_.Encode({piece.data(), piece.size()}, &ids);
    if (!status.ok()) {
      throw Error(ErrorCode::kInternal, {.what = path_ + ": encoding",
                                         .found = status.ToString(),
                                         .expected = "token ids",
                                         .fix = "check the model with spm_encode"});
    }
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  }

 private:
  std::string path_;
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const std::string& path) {
  return std::make_unique<SentencePieceTokenizer>(path);
}

}  // namespace hethub
