#include "traces/files/unpack.hpp"

#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/files/file_kind.hpp"

namespace orrery {
namespace {

constexpr std::array<unsigned char, 6> kXzMagic{0xFD, '7', 'z', 'X', 'Z', 0};
constexpr std::uint64_t kXzMemory = std::uint64_t{256} << 20;

}  // namespace

struct UnpackedFile::State {
  std::string path;
  gzFile gzip = nullptr;  ///< plain files too: zlib returns their bytes unchanged
  std::FILE* packed = nullptr;
  lzma_stream xz = LZMA_STREAM_INIT;
  std::array<unsigned char, 1 << 16> input{};

  ~State() {
    if (gzip != nullptr) gzclose(gzip);
    if (packed != nullptr) std::fclose(packed);
    lzma_end(&xz);
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(SourcePlace{.file = path, .line_text = ""}, message);
  }
  void open_xz();
  std::size_t read_xz(char* into, std::size_t size);
  std::size_t read_gzip(char* into, std::size_t size);
};

void UnpackedFile::State::open_xz() {
  if (lzma_stream_decoder(&xz, kXzMemory, LZMA_CONCATENATED) != LZMA_OK) fail("cannot be unpacked");
}

std::size_t UnpackedFile::State::read_xz(char* into, std::size_t size) {
  xz.next_out = reinterpret_cast<unsigned char*>(into);
  xz.avail_out = size;
  while (xz.avail_out > 0) {
    if (xz.avail_in == 0 && std::feof(packed) == 0) {
      xz.next_in = input.data();
      xz.avail_in = std::fread(input.data(), 1, input.size(), packed);
      if (std::ferror(packed) != 0) fail("cannot be read");
    }
    const lzma_ret result = lzma_code(&xz, std::feof(packed) != 0 ? LZMA_FINISH : LZMA_RUN);
    if (result == LZMA_STREAM_END) break;
    if (result == LZMA_BUF_ERROR) fail("is cut short: the packed data ends too early");
    if (result != LZMA_OK) fail("cannot be unpacked: the file is damaged");
  }
  return size - xz.avail_out;
}

std::size_t UnpackedFile::State::read_gzip(char* into, std::size_t size) {
  std::size_t got = 0;
  while (got < size) {
    const auto part = static_cast<unsigned>(std::min<std::size_t>(size - got, 1u << 30));
    const int count = gzread(gzip, into + got, part);
    if (count < 0) fail("cannot be read or unpacked: the file is damaged");
    if (count == 0) break;
    got += static_cast<std::size_t>(count);
  }
  int status = Z_OK;
  gzerror(gzip, &status);
  if (got < size && status != Z_OK && status != Z_STREAM_END) {
    fail("is cut short: the packed data ends too early");
  }
  return got;
}

UnpackedFile::UnpackedFile(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  if (is_folder(path)) state_->fail("cannot be read: Is a directory");
  state_->packed = std::fopen(path.c_str(), "rb");
  if (state_->packed == nullptr) {
    state_->fail(fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  std::array<unsigned char, kXzMagic.size()> magic{};
  const std::size_t got = std::fread(magic.data(), 1, magic.size(), state_->packed);
  if (got == magic.size() && magic == kXzMagic) {
    std::rewind(state_->packed);
    state_->open_xz();
    return;
  }
  std::fclose(std::exchange(state_->packed, nullptr));
  state_->gzip = gzopen(path.c_str(), "rb");
  if (state_->gzip == nullptr) state_->fail("cannot be read");
  gzbuffer(state_->gzip, 1u << 16);
}

UnpackedFile::~UnpackedFile() = default;

std::size_t UnpackedFile::read(char* into, std::size_t size) {
  return state_->packed != nullptr ? state_->read_xz(into, size) : state_->read_gzip(into, size);
}

void UnpackedFile::read_rest(std::string& into, std::size_t most) {
  std::size_t size = 0;
  into.resize(std::max<std::size_t>(into.capacity(), std::size_t{1} << 16));
  while (true) {
    const std::size_t got = read(into.data() + size, into.size() - size);
    size += got;
    if (size > most) state_->fail(fmt::format("holds more than {} MiB unpacked", most >> 20));
    if (size < into.size()) break;
    into.resize(into.size() * 2);
  }
  into.resize(size);
}

}  // namespace orrery
