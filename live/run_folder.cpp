#include "live/run_folder.hpp"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {

RunFolder::RunFolder() {
  // Not under the user's choice of folder: a socket's name holds at most 107 bytes.
  path_ = "/tmp/orrery-live-XXXXXX";
  if (!mkdtemp(path_.data())) {
    throw Error(ErrorKind::environment,
                fmt::format("cannot make a folder in /tmp: {}", std::strerror(errno)));
  }
}

RunFolder::~RunFolder() { remove(); }

void RunFolder::remove() noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace orrery::live
