// Reader of a torchtitan job configuration in TOML (torchtitan up to 0.2). The file names a flavor
// of a model; its sizes are those of the shipped catalogue. docs/models.md lists the keys that it
// reads and the flavors that it knows. Thread-safe: no state between calls.
#pragma once

#include <string>
#include <string_view>

#include "traces/models/decoder.hpp"
#include "traces/models/megatron_arguments.hpp"

namespace orrery {

/// Returns true if a text has the table [model] and the key `flavor`.
bool has_torchtitan_model(std::string_view text);

/// Returns the decoder of the file's flavor. Sets `batch`. Throws bad_input with the place for
/// lines that are not TOML, a flavor without sizes in the catalogue (with the known ones) and
/// invalid values; `file` is for messages.
Decoder read_torchtitan(std::string_view text, const std::string& file, NamedBatch& batch);

}  // namespace orrery
