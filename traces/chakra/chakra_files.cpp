#include "traces/chakra/chakra_files.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "traces/chakra/chakra_trace.hpp"
#include "traces/files/unpack.hpp"

namespace orrery {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostRankBytes = std::size_t{1} << 30;
constexpr std::size_t kMostGroupBytes = std::size_t{64} << 20;

[[noreturn]] void fail(const std::string& file, const std::string& message) {
  throw Error(SourcePlace{.file = file, .line_text = ""}, message);
}

/// Parts of the name of a rank's file: "workload.12.et", packed or not, has stem "workload" and
/// rank 12.
struct RankName {
  std::string stem;
  std::uint32_t rank = 0;
};

std::optional<RankName> rank_name(std::string_view name) {
  for (const std::string_view packed : {".gz", ".xz"}) {
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  }
  if (!name.ends_with(".et")) return {};
  name.remove_suffix(3);
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == name.size()) return {};
  const std::string_view digits = name.substr(dot + 1);
  RankName found{std::string(name.substr(0, dot)), 0};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), found.rank);
  if (error != std::errc{} || end != digits.data() + digits.size()) return {};
  if (digits.size() > 1 && digits.front() == '0') return {};
  return found;
}

void check_complete(const std::string& prefix, const std::vector<std::uint32_t>& ranks) {
  for (std::uint32_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == i) continue;
    const bool twice = i > 0 && ranks[i] == ranks[i - 1];
    const std::string name = fmt::format("{}.{}.et", prefix, twice ? ranks[i] : i);
    if (twice) fail(name, fmt::format("rank {} has two files", ranks[i]));
    fail(name, fmt::format("no such file, though the trace has one for rank {}", ranks.back()));
  }
}

// ---- one file per rank --------------------------------------------------------------------------

void read_folder(const std::string& prefix, const ChakraFileSink& sink) {
  const fs::path base(prefix);
  const fs::path folder = base.has_parent_path() ? base.parent_path() : fs::path(".");
  std::map<std::uint32_t, std::string> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const auto name = rank_name(entry.path().filename().string());
    if (!name || name->stem != base.filename().string() || name->rank >= kMostChakraRanks) continue;
    if (!files.emplace(name->rank, entry.path().string()).second) {
      fail(entry.path().string(), fmt::format("rank {} has two files", name->rank));
    }
  }
  if (files.empty()) {
    fail(prefix + ".0.et", "no such file: a Chakra trace has one for each rank, from 0 on");
  }
  std::vector<std::uint32_t> ranks;
  for (const auto& [rank, file] : files) ranks.push_back(rank);
  check_complete(prefix, ranks);
  std::string bytes;
  for (const auto& [rank, file] : files) {
    UnpackedFile(file).read_rest(bytes, kMostRankBytes);
    sink.rank(rank, file, bytes);
  }
}

// ---- an archive ---------------------------------------------------------------------------------

constexpr std::size_t kTarBlock = 512;

/// Reader of a trace in a tar archive, entry by entry.
class TarReader {
 public:
  TarReader(const std::string& path, const ChakraFileSink& sink)
      : path_(path), file_(path), sink_(sink) {}

  /// Passes the ranks' files to the sink and returns the JSON files of the archive by name.
  std::map<std::string, std::string> read() {
    while (next_header()) {
      entry();
      skip((kTarBlock - size_ % kTarBlock) % kTarBlock);
    }
    if (ranks_.empty()) fail(path_, "the archive holds no file of a rank (NAME.0.et)");
    std::sort(ranks_.begin(), ranks_.end());
    check_complete(path_ + ": " + stem_, ranks_);
    return std::move(json_);
  }
  const std::string& stem() const { return stem_; }

 private:
  bool next_header();
  void entry();
  void skip(std::size_t bytes);

  const std::string& path_;
  UnpackedFile file_;
  const ChakraFileSink& sink_;
  std::array<char, kTarBlock> header_{};
  std::string name_;
  std::size_t size_ = 0;
  std::string stem_;
  std::vector<std::uint32_t> ranks_;
  std::map<std::string, std::string> json_;
  std::string bytes_;
};

std::string field(const std::array<char, kTarBlock>& header, std::size_t at, std::size_t size) {
  const char* const begin = header.data() + at;
  return {begin, strnlen(begin, size)};
}

bool TarReader::next_header() {
  const std::size_t got = file_.read(header_.data(), kTarBlock);
  if (got == 0 || (got == kTarBlock && header_[0] == '\0')) return false;
  if (got < kTarBlock) fail(path_, "the archive is cut short");
  if (std::memcmp(header_.data() + 257, "ustar", 5) != 0) fail(path_, "is not a tar archive");
  name_ = field(header_, 0, 100);
  const std::string octal = field(header_, 124, 12);
  const std::size_t first = std::min(octal.find_first_not_of(' '), octal.size());
  const auto [end, error] =
      std::from_chars(octal.data() + first, octal.data() + octal.size(), size_, 8);
  if (error != std::errc{} || size_ > kMostRankBytes) {
    fail(path_, fmt::format("'{}' is too large, or the archive is damaged", name_));
  }
  return true;
}

void TarReader::entry() {
  const char kind = header_[156];
  const auto rank = rank_name(name_);
  const bool is_file = kind == '0' || kind == '\0';
  if (is_file && rank && rank->rank < kMostChakraRanks) {
    if (!stem_.empty() && stem_ != rank->stem) {
      fail(path_, fmt::format("the archive holds two traces: '{}' and '{}'", stem_, rank->stem));
    }
    stem_ = rank->stem;
    ranks_.push_back(rank->rank);
    bytes_.resize(size_);
    if (file_.read(bytes_.data(), size_) < size_) fail(path_, "the archive is cut short");
    sink_.rank(rank->rank, path_ + ": " + name_, bytes_);
  } else if (is_file && name_.ends_with(".json") && size_ <= kMostGroupBytes) {
    std::string& text = json_[name_];
    text.resize(size_);
    if (file_.read(text.data(), size_) < size_) fail(path_, "the archive is cut short");
  } else {
    skip(size_);
  }
}

void TarReader::skip(std::size_t bytes) {
  std::array<char, kTarBlock> scratch;
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, scratch.size());
    if (file_.read(scratch.data(), part) < part) fail(path_, "the archive is cut short");
    bytes -= part;
  }
}

}  // namespace

void read_chakra_files(const std::string& path, const std::string& groups_file,
                       const ChakraFileSink& sink) {
  std::string name = groups_file, json;
  if (is_file(path)) {
    TarReader archive(path, sink);
    auto beside = archive.read();
    const auto own = beside.find(archive.stem() + ".json");
    if (name.empty() && own != beside.end()) {
      sink.groups(path + ": " + own->first, own->second);
      return;
    }
  } else {
    read_folder(path, sink);
    if (name.empty() && is_file(path + ".json")) name = path + ".json";
  }
  if (name.empty()) return;
  UnpackedFile(name).read_rest(json, kMostGroupBytes);
  sink.groups(name, json);
}

}  // namespace orrery
