#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hethub/data/document_reader.h"
#include "hethub/data/indexed_dataset.h"

namespace hethub {

struct TokenizeOptions {
  std::vector<std::string> inputs = {};  ///< files, in the order their documents take
  std::string tokenizer = "bytes";       ///< as make_tokenizer
  std::string output_prefix = {};        ///< of the .bin and .idx files
  std::string dtype = "auto";            ///< auto (token_type_for), uint16 or int32
  bool append_eod = false;               ///< end every document with the tokenizer's id for that
  ReadOptions read = {};
};

/// What was written.
struct TokenizeTotals {
  InputTotals input = {};
  std::int64_t tokens = 0;
  std::int64_t vocabulary_size = 0;
  TokenType type = TokenType::kU16;
};

/// Turns texts into a token dataset; each document becomes one sequence, and empty ones are counted
/// and left out. Memory does not grow with the inputs but by 4 bytes a document. Throws
/// kInvalidConfig if the dtype is too narrow for the vocabulary or append_eod is asked of a
/// tokenizer that has no such id, kCorruptData on bad input and if there are no tokens at all, and
/// as the readers and writers it uses; then no file is left behind or replaced.
TokenizeTotals tokenize(const TokenizeOptions& options);

/// What `hethub data inspect` shows of a dataset.
struct DatasetSummary {
  std::string prefix = {};
  TokenType type = TokenType::kU16;
  std::int64_t documents = 0;
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  SequenceLengths lengths = {};
  bool has_modes = false;
  std::vector<std::int32_t> first_tokens = {};  ///< up to 16
};

/// Checks a dataset as IndexedDataset does and sums it up.
DatasetSummary inspect_dataset(const std::string& prefix);

}  // namespace hethub
