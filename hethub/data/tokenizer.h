#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hethub {

/// Turns text into token ids in [0, vocabulary_size()). Not to be shared between threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::int64_t vocabulary_size() const = 0;
  /// The id that ends a document, or -1 if the vocabulary has none.
  virtual std::int32_t end_of_document() const = 0;
  /// Appends the ids of `text`, without any that mark its start or end.
  virtual void append_tokens(std::string_view text, std::vector<std::int32_t>& tokens) const = 0;
};

/// The ids of `bytes`: 0 to 255 are the bytes of the UTF-8 text, 256 ends a document.
inline constexpr std::int64_t kByteVocabularySize = 257;
inline constexpr std::int32_t kByteEndOfDocument = 256;

/// "bytes", or the path of a SentencePiece .model. A text that comes in pieces is encoded piece by
/// piece. Throws kMissingInput if there is no such file, kCorruptData if it is no SentencePiece
/// model, and kUnsupported on what else is known: tokenizer.json and tiktoken files.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name);

/// The SentencePiece part of make_tokenizer.
std::unique_ptr<Tokenizer> open_sentencepiece(const std::string& path);

}  // namespace hethub
