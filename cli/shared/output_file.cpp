#include "cli/shared/output_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::cli {

OutputFile::OutputFile(std::string path) : path_(std::move(path)), beside_(path_) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path_, unknown);
  if (std::filesystem::is_directory(status)) {
    errno = EISDIR;
    fail_writing();
  }
  const bool in_place = std::filesystem::exists(status) &&
                        !std::filesystem::is_regular_file(status);
  if (in_place || std::filesystem::is_symlink(std::filesystem::symlink_status(path_, unknown))) {
    return;
  }
  beside_ = fmt::format("{}.{}.part", path_, ::getpid());
  errno = 0;
  if (!std::ofstream(beside_, std::ios::binary)) fail_writing();
}

OutputFile::~OutputFile() {
  if (beside_ != path_) std::remove(beside_.c_str());  // a finished file has been renamed
}

void OutputFile::write_and_rename(const std::string& text) {
  errno = 0;
  std::ofstream file(beside_, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) fail_writing();
  if (beside_ != path_ && std::rename(beside_.c_str(), path_.c_str()) != 0) fail_writing();
}

void OutputFile::fail_writing() const {
  throw Error(ErrorKind::environment,
              fmt::format("cannot write '{}': {}", path_,
                          errno != 0 ? std::strerror(errno) : "the device refuses"));
}

void write_file(const std::string& path, const std::string& text) {
  OutputFile(path).write_and_rename(text);
}

}  // namespace orrery::cli
