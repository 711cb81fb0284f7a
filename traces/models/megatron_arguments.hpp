// Reader of the arguments of Megatron-LM: a command line, or a shell script with one. Assignments
// of the script (NAME=value) replace $NAME and ${NAME}; nothing is executed. docs/models.md lists
// the arguments that it reads. Thread-safe: no state between calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "traces/models/decoder.hpp"

namespace orrery {

/// Batch that a file of a training run names; 0: not named.
struct NamedBatch {
  std::uint32_t sequence_length = 0, global_batch = 0, micro_batch = 0;
};

/// Returns true if a text has the arguments of a model: `--num-layers` and `--hidden-size`.
bool has_megatron_arguments(std::string_view text);

/// Returns the decoder of the arguments. Sets `batch`. Throws bad_input with the place for missing
/// and invalid values; `file` is for messages.
Decoder read_megatron_arguments(std::string_view text, const std::string& file, NamedBatch& batch);

}  // namespace orrery
