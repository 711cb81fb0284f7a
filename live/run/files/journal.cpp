#include "live/run/files/journal.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kHead = 12;  // Size, checksum of the record, checksum of the first two.

std::uint32_t checksum(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

void put(std::string& out, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> (8 * i));
}
std::uint32_t get(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

std::string read_all(int file) {
  std::string bytes;
  std::array<char, 1 << 16> piece;
  while (true) {
    const ssize_t got = ::read(file, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return bytes;
    bytes.append(piece.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

std::string framed(const std::string& record) {
  std::string out;
  put(out, static_cast<std::uint32_t>(record.size()));
  put(out, checksum(record));
  put(out, checksum(std::string_view(out).substr(0, 8)));
  return out + record;
}

Journal::Journal(const std::string& path, const std::string& scenario_hash, std::size_t tail,
                 FileCalls calls, const RunRules& rules)
    : path_(path), scenario_hash_(scenario_hash), tail_(tail), rules_(rules) {
  files_ = std::make_shared<JournalFiles>(path, open_file(), std::move(calls));
  state_ = past_;
  if (whole_ > 0) return;
  const std::string bytes = framed(opening().SerializeAsString());
  if (const auto why = append_bytes(bytes)) {
    abandon_file(*why);
  } else {
    whole_ = snapshot_end_ = bytes.size();
  }
}

Journal::~Journal() = default;

std::shared_ptr<OpenFile> Journal::open_file() {
  auto file = std::make_shared<OpenFile>(
      open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND | O_NOFOLLOW, 0600));
  if (file->descriptor() < 0) {
    throw Error(ErrorKind::environment,
                fmt::format("expected to open the journal {}: {}; check the run's folder", path_,
                            std::strerror(errno)));
  }
  read(read_all(file->descriptor()));
  if (cut_off_ > 0 && ftruncate(file->descriptor(), static_cast<off_t>(whole_)) != 0) {
    refuse_file("has a torn last record that cannot be cut off", whole_);
  }
  return file;
}

JournalRecord Journal::opening() const {
  JournalRecord opening;
  opening.mutable_opening()->set_format(kJournalFormat);
  opening.mutable_opening()->set_scenario_hash(scenario_hash_);
  return opening;
}

void Journal::refuse_file(const std::string& why, std::size_t at) const {
  throw Error(ErrorKind::environment,
              fmt::format("the journal {} {} at byte {}; start the run again", path_, why, at));
}

void Journal::read(const std::string& bytes) {
  while (bytes.size() - whole_ >= kHead) {
    const std::string_view head = std::string_view(bytes).substr(whole_, kHead);
    if (checksum(head.substr(0, 8)) != get(head, 8)) refuse_file("is damaged", whole_);
    const std::size_t size = get(head, 0);
    if (bytes.size() - whole_ - kHead < size) break;
    const std::string_view body = std::string_view(bytes).substr(whole_ + kHead, size);
    if (checksum(body) != get(head, 4)) refuse_file("is damaged", whole_);
    const google::protobuf::LogSilencer quiet;  // The error is reported below.
    JournalRecord record;
    if (!record.ParseFromArray(body.data(), static_cast<int>(size)))
      refuse_file("is damaged", whole_);
    if (whole_ == 0) {
      if (record.opening().format() != kJournalFormat) {
        refuse_file(fmt::format("has format {}, expected format {},", record.opening().format(),
                                kJournalFormat),
                    whole_);
      }
      if (record.opening().scenario_hash() != scenario_hash_)
        refuse_file("is of another run", whole_);
    } else if (const auto why = apply(past_, record, rules_)) {
      refuse_file(*why, whole_);
    }
    whole_ += kHead + size;
    if (snapshot_end_ == 0 || record.has_snapshot()) snapshot_end_ = whole_;
  }
  cut_off_ = bytes.size() - whole_;
}

std::optional<std::string> Journal::append_bytes(std::string bytes) {
  const auto failure = std::make_shared<int>(0);
  const auto append = [files = files_, bytes = std::move(bytes), failure] {
    *failure = files->append_bytes(bytes);
  };
  if (!appends_.run_job(append, kAppendDeadline)) {
    return fmt::format("no append within {} ms", kAppendDeadline.count());
  }
  if (*failure != 0) return std::strerror(*failure);
  return {};
}

bool Journal::append_record(const JournalRecord& record) {
  apply(state_, record, rules_);  // A record that cannot follow is refused by the next reader.
  if (!files_) return false;
  finish_rewrite();
  std::string bytes = framed(record.SerializeAsString());
  const std::size_t size = bytes.size();
  if (whole_ + size > kMostBytes) {
    abandon_file(fmt::format("the journal has grown to {} MiB and could not be rewritten meanwhile",
                             kMostBytes >> 20));
    return false;
  }
  if (const auto why = append_bytes(std::move(bytes))) {
    abandon_file(*why);
    return false;
  }
  whole_ += size;
  return true;
}

bool Journal::is_due() {
  finish_rewrite();
  return files_ && !is_rewriting_ && whole_ >= snapshot_end_ + std::max(tail_, snapshot_end_);
}

void Journal::begin_anew(JournalSnapshot state, std::function<bool()> may_replace) {
  JournalRecord record;
  *record.mutable_snapshot() = std::move(state);
  std::string bytes = framed(opening().SerializeAsString()) + framed(record.SerializeAsString());
  rewritten_ = whole_;
  rewritten_to_ = bytes.size();
  is_rewriting_ = true;
  files_->begin_rewrite();
  rewrites_.add_job([files = files_, bytes = std::move(bytes), may = std::move(may_replace)] {
    files->rewrite(bytes, may);
  });
}

void Journal::finish_rewrite() {
  const auto is_replaced = files_ ? files_->take_outcome() : std::nullopt;
  if (!is_replaced) return;
  is_rewriting_ = false;
  if (*is_replaced) {
    whole_ = rewritten_to_ + (whole_ - rewritten_);
    snapshot_end_ = rewritten_to_;
  } else {
    snapshot_end_ = whole_;  // The next attempt follows once the file has grown by as much again.
  }
}

bool Journal::wait_for_rewrite(std::chrono::milliseconds patience) {
  const bool is_done = rewrites_.wait_until_idle(patience);
  finish_rewrite();
  return is_done;
}

/// The rest of the file is deleted, because it would only fill the disk that other processes need.
void Journal::abandon_file(const std::string& why) {
  files_.reset();
  abandoned_ = why;
  // The handler runs before the file is deleted: a successor without the file would start the run
  // from its beginning.
  if (decide_) decide_(why);
  rewrites_.add_job([path = path_] { unlink(path.c_str()); });
}

void Journal::discard_file() {
  if (!files_) return;
  files_.reset();
  unlink(path_.c_str());
}

}  // namespace orrery::live
