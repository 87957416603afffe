#include "hethub/data/tokenize.h"

#include <algorithm>
#include <memory>

#include "hethub/base/error.h"
#include "hethub/data/tokenizer.h"

namespace hethub {
namespace {

TokenType type_from(const std::string& dtype, std::int64_t vocabulary_size) {
  constexpr std::int64_t kMostIn16Bits = 65536;
  if (dtype == "auto") return token_type_for(vocabulary_size);
  if (dtype == "int32") return TokenType::kI32;
  if (dtype != "uint16") {
    throw Error(ErrorCode::kUsage, {.what = "--dtype",
                                    .found = text("\"", dtype, "\""),
                                    .expected = "auto, uint16 or int32",
                                    .fix = "choose one of these"});
  }
  if (vocabulary_size > kMostIn16Bits) {
    throw Error(ErrorCode::kInvalidConfig,
                {.what = "--dtype uint16",
                 .found = text("a vocabulary of ", vocabulary_size),
                 .expected = text("at most ", kMostIn16Bits, ", or ids would wrap around"),
                 .fix = "use --dtype int32 or auto"});
  }
  return TokenType::kU16;
}

void check_end_of_document(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  if (!options.append_eod || tokenizer.end_of_document() >= 0) return;
  throw Error(ErrorCode::kInvalidConfig, {.what = "--append-eod",
                                          .found = options.tokenizer + " without such an id",
                                          .expected = "a tokenizer with an end-of-document id",
                                          .fix = "leave it out, or use another tokenizer"});
}

// Tokens of one input, appended to the dataset.
class DocumentWriter {
 public:
  DocumentWriter(const Tokenizer& tokenizer, bool append_eod, IndexedDatasetWriter& dataset)
      : tokenizer_(tokenizer), append_eod_(append_eod), dataset_(dataset) {}

  void write(DocumentReader& documents) {
    Piece piece;
    while (documents.next(piece)) {
      tokens_.clear();
      tokenizer_.append_tokens(piece.text, tokens_);
      has_tokens_ = has_tokens_ || !tokens_.empty();
      const bool ends = piece.ends_document && has_tokens_;
      if (ends && append_eod_) tokens_.push_back(tokenizer_.end_of_document());
      dataset_.append(tokens_);
      if (ends) dataset_.end_document();
      if (piece.ends_document) has_tokens_ = false;
    }
  }

 private:
  const Tokenizer& tokenizer_;
  bool append_eod_;
  IndexedDatasetWriter& dataset_;
  std::vector<std::int32_t> tokens_;
  bool has_tokens_ = false;
};

}  // namespace

TokenizeTotals tokenize(const TokenizeOptions& options) {
  if (options.inputs.empty() || options.output_prefix.empty()) {
    throw Error(ErrorCode::kUsage, {.what = "data tokenize",
                                    .found = options.inputs.empty() ? "no --input" : "no -o",
                                    .expected = "--input FILE... and -o PREFIX",
                                    .fix = "name the files to read and where to write"});
  }
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options.tokenizer);
  check_end_of_document(options, *tokenizer);
  TokenizeTotals totals;
  totals.vocabulary_size = tokenizer->vocabulary_size();
  totals.type = type_from(options.dtype, totals.vocabulary_size);
  IndexedDatasetWriter dataset(options.output_prefix, totals.type);
  DocumentWriter writer(*tokenizer, options.append_eod, dataset);
  for (const std::string& input : options.inputs) {
    writer.write(*open_documents(input, options.read, totals.input));
  }
  if (dataset.tokens() == 0) {
    throw Error(ErrorCode::kCorruptData,
                {.what = "data tokenize",
                 .found = text("no tokens in ", totals.input.documents, " documents"),
                 .expected = "some text",
                 .fix = text("check the inputs and the key \"", options.read.text_key, "\"")});
  }
  dataset.finish();
  totals.tokens = dataset.tokens();
  return totals;
}

DatasetSummary inspect_dataset(const std::string& prefix) {
  const IndexedDataset dataset(prefix);
  DatasetSummary summary = {.prefix = prefix,
                            .type = dataset.type(),
                            .documents = dataset.documents(),
                            .sequences = dataset.sequences(),
                            .tokens = dataset.tokens(),
                            .lengths = dataset.lengths(),
                            .has_modes = dataset.has_modes()};
  summary.first_tokens.resize(
      static_cast<std::size_t>(std::min<std::int64_t>(16, dataset.tokens())));
  dataset.read(0, summary.first_tokens);
  return summary;
}

}  // namespace hethub
