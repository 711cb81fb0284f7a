// Reader of the config.json of a Hugging Face model. docs/models.md lists the keys that it reads
// and the families that it knows. Thread-safe: no state between calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/models/decoder.hpp"

namespace orrery {

/// Returns the decoder of a config.json; of a model with several parts the text part. Throws
/// bad_input with the place for text that is not JSON, missing keys and invalid values, an unknown
/// family (with the nearest name) and a family that the step of a decoder cannot express (with the
/// reason). `file` is for messages.
Decoder read_hugging_face(std::string_view text, const std::string& file);

/// Returns the names of all families that read_hugging_face() knows, in alphabetical order.
std::vector<std::string> model_families();

}  // namespace orrery
