#include "live/training/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/random.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostBytes = std::size_t{4} << 20;
constexpr std::size_t kFewestBytes = 1024;

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw Error(ErrorKind::bad_input,
              fmt::format("live.text: cannot read '{}': {}", path.string(), why));
}

void append_file(const fs::path& path, std::vector<std::uint8_t>& bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, std::strerror(errno));
  std::array<char, 65536> block;
  while (bytes.size() < kMostBytes && file) {
    const std::size_t want = std::min(block.size(), kMostBytes - bytes.size());
    file.read(block.data(), static_cast<std::streamsize>(want));
    bytes.insert(bytes.end(), block.data(), block.data() + file.gcount());
  }
  if (file.bad()) refuse(path, "reading stopped in the middle");
}

std::vector<fs::path> files_of(const std::string& path) {
  std::error_code failure;
  std::vector<fs::path> files;
  const fs::file_status status = fs::status(path, failure);
  if (fs::is_directory(status)) {
    for (fs::directory_iterator at(path, failure), end; !failure && at != end;
         at.increment(failure)) {
      std::error_code unknown;  // an inaccessible path is no regular file
      if (fs::is_regular_file(at->symlink_status(unknown))) files.push_back(at->path());
    }
  } else if (fs::is_regular_file(status)) {
    files.push_back(path);
  } else if (!failure) {
    // A pipe would block, a device has no end, and every rank must read the same.
    refuse(path, "neither a file nor a folder");
  }
  if (failure) refuse(path, failure.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Text Text::load(const std::string& path) {
  std::vector<std::uint8_t> bytes;
  for (const fs::path& file : files_of(path)) append_file(file, bytes);
  if (bytes.size() < kFewestBytes) {
    throw Error(ErrorKind::bad_input,
                fmt::format("live.text: '{}' holds {} bytes; training needs at least {}", path,
                            bytes.size(), kFewestBytes));
  }
  return Text(std::move(bytes));
}

double Text::unigram_entropy() const {
  std::array<std::uint64_t, 256> counts{};
  for (const std::uint8_t byte : bytes_) ++counts[byte];
  double entropy = 0;
  for (const std::uint64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(bytes_.size());
    entropy -= share * std::log(share);
  }
  return entropy;
}

std::vector<std::uint8_t> Text::sample(std::uint64_t seed, Step step, std::uint64_t micro_batch,
                                       std::size_t count, std::size_t length) const {
  if (length > bytes_.size()) {
    throw Error(ErrorKind::bad_input,
                fmt::format("live.text: a sequence of {} bytes is longer than the text of {}",
                            length, bytes_.size()));
  }
  Rng rng = Rng(seed).split_stream(fmt::format("step {} micro-batch {}", step, micro_batch));
  std::vector<std::uint8_t> out;
  out.reserve(count * length);
  for (std::size_t i = 0; i < count; ++i) {
    const auto start = static_cast<std::ptrdiff_t>(rng.below(bytes_.size() - length + 1));
    out.insert(out.end(), bytes_.begin() + start,
               bytes_.begin() + start + static_cast<std::ptrdiff_t>(length));
  }
  return out;
}

}  // namespace orrery::live
