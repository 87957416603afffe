#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/verb.h"
#include "hethub/base/json.h"
#include "hethub/data/baselines.h"
#include "hethub/data/token_dataset.h"
#include "hethub/data/tokenize.h"

namespace hethub {
namespace {

struct TokenizeArguments {
  TokenizeOptions options = {};
  std::string on_bad_line = "error";
};

struct InspectArguments {
  std::string prefix = {};
};

Json json_of(const TokenizeTotals& totals, const std::string& prefix) {
  return {{"prefix", prefix},
          {"lines", totals.input.lines},
          {"blank", totals.input.blank},
          {"docs", totals.input.documents},
          {"empty", totals.input.empty},
          {"bad", totals.input.bad},
          {"bytes", totals.input.text_bytes},
          {"tokens", totals.tokens},
          {"vocab_size", totals.vocabulary_size},
          {"dtype", row_of(totals.type).name}};
}

Json json_of(const DatasetSummary& summary) {
  return {{"prefix", summary.prefix},
          {"dtype", row_of(summary.type).name},
          {"documents", summary.documents},
          {"sequences", summary.sequences},
          {"tokens", summary.tokens},
          {"empty_sequences", summary.lengths.empty},
          {"shortest_sequence", summary.lengths.least},
          {"longest_sequence", summary.lengths.most},
          {"modes", summary.has_modes},
          {"first_tokens", summary.first_tokens}};
}

// "key=value key=value ...", in the order of the object.
void print_line(const Json& object) {
  bool first = true;
  for (const auto& [key, value] : object.items()) {
    std::cout << (first ? "" : " ") << key << '='
              << (value.is_string() ? value.get<std::string>() : value.dump());
    first = false;
  }
  std::cout << '\n';
}

void print(const Json& object, bool json) {
  if (!json) return print_line(object);
  std::cout << object.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

int run_tokenize(const TokenizeArguments& arguments, bool json) {
  TokenizeOptions options = arguments.options;
  options.read.on_bad_line = bad_line_from(arguments.on_bad_line);
  print(json_of(tokenize(options), options.output_prefix), json);
  return 0;
}

int run_inspect(const InspectArguments& arguments, bool json) {
  print(json_of(inspect_dataset(arguments.prefix)), json);
  return 0;
}

struct BaselineArguments {
  TokenDatasetOptions options = {};
};

int run_baselines(const BaselineArguments& arguments, bool json) {
  TokenDatasetOptions options = arguments.options;
  const TokenDataset training(options);
  options.split = Split::kHeldOut;
  const TokenDataset held_out(options);
  const Baselines found = baselines_of(training, held_out, options.vocabulary_size);
  print({{"unigram_nats", found.unigram},
         {"bigram_nats", found.bigram},
         {"bigram_weight", found.bigram_weight},
         {"training_tokens", found.training_tokens},
         {"held_out_tokens", found.held_out_tokens}},
        json);
  return 0;
}

void add_tokenize(CLI::App& data, VerbCall& call) {
  CLI::App& command = *data.add_subcommand("tokenize", "turn texts into a token dataset");
  const auto arguments = std::make_shared<TokenizeArguments>();
  TokenizeOptions& options = arguments->options;
  command.add_option("--input", options.inputs, "files: .jsonl, .txt, either .gz, or .dz")
      ->required();
  command.add_option("--tokenizer", options.tokenizer, "bytes, or a SentencePiece .model file")
      ->required();
  command.add_option("-o,--output", options.output_prefix, "writes PREFIX.bin and PREFIX.idx")
      ->required();
  command.add_option("--text-key", options.read.text_key, "the JSONL member with the text")
      ->capture_default_str();
  command
      .add_option("--on-bad-line", arguments->on_bad_line,
                  "error, skip, or replace (U+FFFD for what is no UTF-8)")
      ->capture_default_str();
  command.add_option("--dtype", options.dtype, "auto, uint16 or int32")->capture_default_str();
  command.add_flag("--append-eod", options.append_eod, "end each document with the id for that");
  command.add_flag("--split-on-blank-lines", options.read.split_on_blank_lines,
                   "plain text: one document a paragraph, not a file");
  command.add_option("--longest-line", options.read.longest_line, "bytes; a longer one is refused")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.footer("Example: hethub data tokenize --input a.jsonl b.txt.gz --tokenizer bytes -o ab");
  on_chosen(command, call, "data tokenize", arguments, run_tokenize);
}

void add_inspect(CLI::App& data, VerbCall& call) {
  CLI::App& command = *data.add_subcommand("inspect", "check a token dataset and sum it up");
  const auto arguments = std::make_shared<InspectArguments>();
  command.add_option("prefix", arguments->prefix, "of the .bin and .idx files")->required();
  command.footer("Example: hethub data inspect corpus");
  on_chosen(command, call, "data inspect", arguments, run_inspect);
}

void add_baselines(CLI::App& data, VerbCall& call) {
  CLI::App& command = *data.add_subcommand(
      "baselines", "what models that only count reach on the held-out part, in nats a token");
  const auto arguments = std::make_shared<BaselineArguments>();
  TokenDatasetOptions& options = arguments->options;
  options.held_out_fraction = 0.02;
  command.add_option("prefix", options.prefix, "of the .bin and .idx files")->required();
  command.add_option("--sequence-length", options.sequence_length, "as in training")->required();
  command.add_option("--vocab-size", options.vocabulary_size, "of the model")->required();
  command.add_option("--held-out-fraction", options.held_out_fraction, "as in training")
      ->capture_default_str();
  command.footer("Example: hethub data baselines corpus --sequence-length 128 --vocab-size 257");
  on_chosen(command, call, "data baselines", arguments, run_baselines);
}

}  // namespace

void add_data(CLI::App& app, VerbCall& call) {
  CLI::App& data = *app.add_subcommand("data", "text -> tokens; look into token files");
  data.require_subcommand(1);
  add_tokenize(data, call);
  add_inspect(data, call);
  add_baselines(data, call);
}

}  // namespace hethub
