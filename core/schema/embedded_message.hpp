// Messages that the build compiles into the rooms as bytes (orrery_catalog of CMakeLists.txt). Used
// by the catalogues. Thread-safe: no state.
#pragma once

#include <string_view>

#include "core/error.hpp"

namespace orrery {

/// Returns the message that the build wrote as `bytes`. Throws an internal Error for the bytes of
/// another type.
template <class Message>
Message read_embedded(std::string_view bytes) {
  Message message;
  ensure(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())),
         "embedded bytes are a message of the catalogue's type");
  return message;
}

}  // namespace orrery
