#include "live/checkpoint/key.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kLeast = 32, kMost = 4096;

[[noreturn]] void refuse_key(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::bad_input, fmt::format("checkpoints.key: {}: {}", path, why));
}

/// Why it is no key; nothing: it may be one.
const char* objection(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return "is no regular file";
  if (status.st_uid != geteuid()) return "belongs to another user";
  if ((status.st_mode & 077) != 0) return "others may read it: chmod 600 it";
  return nullptr;
}

struct Opened {
  explicit Opened(const std::string& path)
      : file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Opened() {
    if (file >= 0) close(file);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  const int file;
};

}  // namespace

std::string read_checkpoint_key(const std::string& path) {
  if (path.empty()) return {};
  const Opened opened(path);
  struct stat status {};
  if (opened.file < 0 || fstat(opened.file, &status) != 0) refuse_key(path, std::strerror(errno));
  if (const char* const why = objection(status)) refuse_key(path, why);
  std::array<char, kMost + 1> bytes{};
  const ssize_t read_now = read(opened.file, bytes.data(), bytes.size());
  if (read_now < 0) refuse_key(path, std::strerror(errno));
  const auto size = static_cast<std::size_t>(read_now);
  if (size >= kLeast && size <= kMost) return {bytes.data(), size};
  refuse_key(path, fmt::format("has {} bytes; a key has {} to {}",
                               size > kMost ? "more" : std::to_string(size), kLeast, kMost));
}

std::string hmac_sha256_hex(std::string_view key, std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned size = 0;
  const auto* const begin = reinterpret_cast<const unsigned char*>(bytes.data());
  const bool made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), begin,
                         bytes.size(), code.data(), &size) != nullptr;
  ensure(made, "OpenSSL knows SHA-256");
  return fmt::format("{:02x}", fmt::join(code.begin(), code.begin() + size, ""));
}

}  // namespace orrery::live
