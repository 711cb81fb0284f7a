#include "policies/record/log_reader.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{256} << 20;

}  // namespace

LogReader::LogReader(const std::string& path)
    : path_(path), stream_(std::fopen(path.c_str(), "rb")) {
  if (stream_ == nullptr) refuse_log(fmt::format("cannot be read: {}", std::strerror(errno)));
}

bool LogReader::next(LogRecord& record) {
  begin_ = offset_;
  const std::optional<std::uint64_t> size = read_length();
  if (!size) return false;
  if (*size > kMaxRecordBytes) refuse_log("is no log");
  // The buffer grows with the data: a damaged length must not allocate the claimed memory.
  bytes_.clear();
  char piece[1 << 16];
  while (bytes_.size() < *size) {
    const std::size_t wanted = std::min<std::uint64_t>(*size - bytes_.size(), sizeof piece);
    const std::size_t got = std::fread(piece, 1, wanted, stream_);
    if (got == 0) refuse_log("is cut short");
    bytes_.append(piece, got);
  }
  offset_ += bytes_.size();
  const google::protobuf::LogSilencer quiet;  // the error is reported below
  if (!record.ParseFromString(bytes_)) refuse_log(number_ == 0 ? "is no log" : "is damaged");
  ++number_;
  convert_newest(record);
  return true;
}

bool LogReader::next_written(LogRecord& record) {
  std::clearerr(stream_);  // the end of the file was that of an earlier call
  const std::uint64_t begin = offset_;
  const bool is_whole = has_whole_record();
  offset_ = begin;
  if (::fseeko(stream_, static_cast<off_t>(begin), SEEK_SET) != 0) {
    refuse_log(fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  return is_whole && next(record);
}

bool LogReader::has_whole_record() {
  struct stat file {};
  if (::fstat(::fileno(stream_), &file) != 0) return false;
  const auto size = static_cast<std::uint64_t>(file.st_size);
  std::uint64_t length = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const int byte = std::fgetc(stream_);
    if (byte == EOF) return false;
    ++offset_;
    length |= std::uint64_t(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return length > kMaxRecordBytes || size - offset_ >= length;
  }
  return true;  // next() refuses the length
}

void LogReader::convert_newest(LogRecord& record) {
  if (record.has_header() && record.header().format() != 0) {
    if (const auto problem = log_format_problem(record.header())) refuse_last(*problem);
    format_ = log_format(record.header());
  }
  try {
    convert_record(record, format_);
  } catch (const Error& error) {
    refuse_last(error.message());
  }
}

void LogReader::refuse_log(const std::string& why) const {
  throw Error(ErrorKind::bad_input,
              fmt::format("{}: {} (record {}, byte {})", path_, why, number_, begin_));
}

void LogReader::refuse_last(const std::string& why) const {
  throw Error(ErrorKind::bad_input,
              fmt::format("{}: {} (record {}, byte {})", path_, why, number_ - 1, begin_));
}

/// Reads the length that precedes a record; nothing at the end of the file.
std::optional<std::uint64_t> LogReader::read_length() {
  std::uint64_t size = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const int byte = std::fgetc(stream_);
    if (byte == EOF && shift == 0) return {};
    if (byte == EOF) refuse_log("is cut short");
    ++offset_;
    size |= std::uint64_t(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return size;
  }
  refuse_log("is no log");
}

LogHeader read_header(LogReader& log) {
  LogRecord record;
  if (!log.next(record)) log.refuse_log("is empty");
  if (!record.has_header() || record.header().format() == 0) log.refuse_last("is no log");
  const LogHeader& header = record.header();
  if (!header.has_scenario() && !header.has_replay()) log.refuse_last("its header is incomplete");
  return header;
}

}  // namespace orrery
