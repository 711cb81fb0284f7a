#include "traces/files/csv.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <zlib.h>

#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "core/schema/yaml_tree.hpp"

namespace orrery {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

[[noreturn]] void fail_file(const std::string& path, const std::string& message) {
  throw Error(SourcePlace{.file = path, .line_text = ""}, message);
}

}  // namespace

struct PackedFileReader::State {
  explicit State(const std::string& of) : path(of), file(nullptr, gzclose) {
    if (is_folder(path)) fail_file(path, "cannot be read: Is a directory");
    // zlib returns the bytes of a file that is not gzip unchanged.
    file.reset(gzopen(path.c_str(), "rb"));
    if (file == nullptr) fail_file(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    gzbuffer(file.get(), 1u << 17);
  }
  std::string path;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file;
  std::string chunk = std::string(std::size_t{1} << 18, '\0');
  std::size_t bytes = 0;
};

PackedFileReader::PackedFileReader(const std::string& path)
    : state_(std::make_unique<State>(path)) {}
PackedFileReader::~PackedFileReader() = default;

bool PackedFileReader::more(std::string& text) {
  State& from = *state_;
  const int got =
      gzread(from.file.get(), from.chunk.data(), static_cast<unsigned>(from.chunk.size()));
  if (got < 0) fail_file(from.path, "cannot be read or unpacked: the file is damaged");
  from.bytes += static_cast<std::size_t>(got);
  if (from.bytes > kMostBytes) fail_file(from.path, "holds more than 1 GiB unpacked");
  text.append(from.chunk, 0, static_cast<std::size_t>(got));
  if (got > 0) return true;
  int status = Z_OK;
  gzerror(from.file.get(), &status);
  if (status != Z_OK && status != Z_STREAM_END) {
    fail_file(from.path, "is cut short: the packed data ends too early");
  }
  return false;
}

std::string read_packed_text(const std::string& path) {
  PackedFileReader reader(path);
  std::string text;
  while (reader.more(text)) {}
  return text;
}

std::uint64_t unpacked_size(const std::string& path) {
  std::error_code failed;
  const std::uint64_t size = std::filesystem::file_size(path, failed);
  std::ifstream file(path, std::ios::binary);
  std::array<unsigned char, 4> bytes{};
  const auto read = [&] { file.read(reinterpret_cast<char*>(bytes.data()), bytes.size()); };
  if (failed || size < bytes.size()) return 0;
  read();
  if (bytes[0] != 0x1F || bytes[1] != 0x8B) return size;
  file.seekg(-4, std::ios::end);  // gzip's own size field, modulo 4 GiB
  read();
  return std::uint64_t{bytes[0]} | std::uint64_t{bytes[1]} << 8 | std::uint64_t{bytes[2]} << 16 |
         std::uint64_t{bytes[3]} << 24;
}

CsvReader::CsvReader(const std::string& path, std::string_view text, Separator mark, int first_line)
    : path_(path), text_(text), mark_(mark), line_(first_line) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (first_line == 1 && text_.starts_with(byte_order_mark))
    text_.remove_prefix(byte_order_mark.size());
}

bool CsvReader::next_row(std::vector<std::string_view>& fields) {
  fields.clear();
  begins_.clear();
  unquoted_.clear();
  if (at_ >= text_.size()) return false;
  row_begin_ = at_;
  row_line_ = line_;
  skip_blanks();
  while (true) {
    begins_.push_back(at_);
    fields.push_back(take_field());
    skip_blanks();
    const bool more = at_ < text_.size() && text_[at_] != '\n';
    if (!more || (mark_ != Separator::blanks && text_[at_] != static_cast<char>(mark_))) break;
    if (mark_ != Separator::blanks) ++at_;
  }
  row_ = text_.substr(row_begin_, at_ - row_begin_);
  if (row_.ends_with('\r')) row_.remove_suffix(1);
  if (at_ < text_.size()) ++at_;  // the line feed
  ++line_;
  return true;
}

void CsvReader::skip_blanks() {
  if (mark_ != Separator::blanks) return;
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) {
    ++at_;
  }
}

/// Returns the field at at_. Moves at_ to the separator, the line feed or the end after the field.
std::string_view CsvReader::take_field() {
  if (mark_ == Separator::comma && at_ < text_.size() && text_[at_] == '"') return take_quoted();
  const std::size_t begin = at_;
  const std::array<char, 4> ends{static_cast<char>(mark_), '\n', '\t', '\r'};
  const std::size_t marks = mark_ == Separator::blanks ? ends.size() : 2;
  at_ = std::min(text_.find_first_of(ends.data(), begin, marks), text_.size());
  std::string_view field = text_.substr(begin, at_ - begin);
  const bool row_ends = at_ == text_.size() || text_[at_] == '\n';
  if (row_ends && field.ends_with('\r')) field.remove_suffix(1);
  return field;
}

std::string_view CsvReader::take_quoted() {
  const std::size_t open = at_++;
  bool doubled = false;
  std::size_t end = at_;
  while (true) {
    end = text_.find('"', end);
    if (end == std::string_view::npos) fail_at(open, "this quote is never closed");
    if (end + 1 >= text_.size() || text_[end + 1] != '"') break;
    doubled = true;
    end += 2;
  }
  std::string_view field = text_.substr(at_, end - at_);
  line_ += static_cast<int>(std::count(field.begin(), field.end(), '\n'));
  at_ = end + 1;
  if (text_.substr(at_, 2) == "\r\n" || text_.substr(at_) == "\r") ++at_;
  if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n') {
    fail_at(at_, "a comma or the line's end must follow the closing quote");
  }
  if (!doubled) return field;
  std::string& plain = unquoted_.emplace_back();
  for (std::size_t i = 0; i < field.size(); ++i) {
    plain += field[i];
    if (field[i] == '"') ++i;
  }
  return plain;
}

void CsvReader::fail_at(std::size_t offset, const std::string& message) const {
  const std::string_view before = text_.substr(0, offset);
  const std::size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto lines =
      std::count(before.begin() + static_cast<std::ptrdiff_t>(row_begin_), before.end(), '\n');
  throw Error(place_in(text_, path_, row_line_ + static_cast<int>(lines),
                       static_cast<int>(offset - begin) + 1),
              message);
}

void CsvReader::fail_at_field(std::size_t field, const std::string& message) const {
  fail_at(field < begins_.size() ? begins_[field] : row_begin_, message);
}

void CsvReader::fail_row(const std::string& message) const { fail_at(row_begin_, message); }

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace orrery
