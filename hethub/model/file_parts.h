#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hethub/model/config.h"
#include "hethub/model/tensors.h"

namespace hethub {

/// Rows of one of the model's tensors, and where a Hugging Face file of its family has them. A row
/// of a tensor of one dimension is one element.
struct FilePart {
  std::string name = {};                 ///< of the tensor in the file
  std::vector<std::int64_t> shape = {};  ///< of that tensor, as the file has it
  bool transposed = false;               ///< the file has it as [in, out]
  std::int64_t first = 0;                ///< row of the file's tensor, seen as [out, in]
  std::int64_t row = 0;                  ///< row of the model's tensor
  std::int64_t rows = 0;
};

/// The parts that make up a tensor, in the order of its rows: one of the same name and shape for
/// most; those of each expert; GPT-2's queries, keys and values as parts of one.
std::vector<FilePart> file_parts_of(const ModelConfig& model, const ModelTensor& tensor);

/// One tensor of a family's files, and the model's tensors whose rows it holds.
struct FileTensor {
  std::string name = {};
  std::vector<std::int64_t> shape = {};
  bool transposed = false;
  std::vector<std::pair<ModelTensor, FilePart>> parts = {};
};

/// All tensors of the model's files, a tied head left out, in the order of tensors_of.
std::vector<FileTensor> file_tensors_of(const ModelConfig& model);

/// The name under which some files of the family have it too; empty if there is none.
std::string other_file_name(const ModelConfig& model, const std::string& name);

/// Whether files of the family may hold a tensor of that name which is no parameter.
bool is_file_buffer(const ModelConfig& model, const std::string& name);

}  // namespace hethub
