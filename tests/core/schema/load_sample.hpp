// Helpers of the loader's tests: load a Sample, and the message about a bad text.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "core/schema/yaml_loader.hpp"
#include "tests/core/schema/sample.pb.h"

namespace orrery {

inline Sample load_sample(const std::string& text) {
  Sample sample;
  load_yaml(text, "s.yaml", sample);
  return sample;
}

/// "line:column: message" of the Error that `text` is refused with.
inline std::string refusal(const std::string& text) {
  try {
    load_sample(text);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input || !error.source_place())
      return "an error of another kind";
    return std::to_string(error.source_place()->line) + ":" +
           std::to_string(error.source_place()->column) + ": " + error.message();
  }
  return "accepted";
}

}  // namespace orrery
