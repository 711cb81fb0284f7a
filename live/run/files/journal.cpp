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

/// Returns the step whose commit must be the next one in the journal.
Step next_step(const Past& past) {
  if (past.rolled_back) return past.rolled_back->step();
  if (!past.commits.empty()) return past.commits.back().step() + 1;
  if (past.snapshot) return past.snapshot->step();
  return past.resumed ? past.resumed->step() : 0;
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

/// Returns the error number of a failed write; 0 if all bytes were written.
int write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

std::string framed(const std::string& record) {
  std::string out;
  put(out, static_cast<std::uint32_t>(record.size()));
  put(out, checksum(record));
  put(out, checksum(std::string_view(out).substr(0, 8)));
  return out + record;
}

Journal::Journal(const std::string& path, const std::string& scenario_hash, std::size_t tail)
    : path_(path), scenario_hash_(scenario_hash), tail_(tail) {
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND | O_NOFOLLOW, 0600);
  if (file_ < 0) {
    throw Error(ErrorKind::environment,
                fmt::format("expected to open the journal {}: {}; check the run's folder", path,
                            std::strerror(errno)));
  }
  try {
    read(read_all(file_), scenario_hash);
    if (cut_off_ > 0 && ftruncate(file_, static_cast<off_t>(whole_)) != 0) {
      refuse_file("has a torn last record that cannot be cut off", whole_);
    }
  } catch (...) {
    close(file_);
    throw;
  }
  if (whole_ > 0) return;
  append_record(opening());
  snapshot_end_ = whole_;
}

JournalRecord Journal::opening() const {
  JournalRecord opening;
  opening.mutable_opening()->set_format(kJournalFormat);
  opening.mutable_opening()->set_scenario_hash(scenario_hash_);
  return opening;
}

Journal::~Journal() {
  if (file_ >= 0) close(file_);
}

void Journal::refuse_file(const std::string& why, std::size_t at) const {
  throw Error(ErrorKind::environment,
              fmt::format("the journal {} {} at byte {}; start the run again", path_, why, at));
}

void Journal::read(const std::string& bytes, const std::string& scenario_hash) {
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
      if (record.opening().scenario_hash() != scenario_hash)
        refuse_file("is of another run", whole_);
    } else {
      add_to_contents(record, whole_);
    }
    whole_ += kHead + size;
    if (snapshot_end_ == 0 || record.has_snapshot()) snapshot_end_ = whole_;
  }
  cut_off_ = bytes.size() - whole_;
}

void Journal::add_to_contents(const JournalRecord& record, std::size_t at) {
  const bool first = std::exchange(past_.empty, false);
  switch (record.kind_case()) {
    case JournalRecord::kSnapshot:
      if (!first) refuse_file("holds a snapshot after its first record", at);
      return add_to_contents(record.snapshot());
    case JournalRecord::kMembership:
      past_.core.epoch = record.membership().epoch();
      past_.core.decided = record.membership().decided();
      return;
    case JournalRecord::kStarted: past_.started = record.started(); return;
    case JournalRecord::kSeen:
      past_.seen.push_back(record.seen().observation());
      for (const JournalLoss& loss : record.seen().losses()) add_to_contents(loss, at);
      return;
    case JournalRecord::kRead:
      if (past_.seen.empty()) refuse_file("holds telemetry before the first observation", at);
      past_.read[past_.seen.size() - 1] = record.read();
      return;
    case JournalRecord::kCommit:
      if (record.commit().step() != next_step(past_)) refuse_file("lacks the commit of a step", at);
      past_.core.committed = record.commit().step() + 1;
      past_.core.committed_in = record.commit().epoch();
      past_.commits.push_back(record.commit());
      past_.rolled_back.reset();
      return;
    case JournalRecord::kStrike: past_.strikes.push_back(record.strike()); return;
    case JournalRecord::kRemoval: past_.removals.push_back(record.removal()); return;
    case JournalRecord::kJoined:
      past_.joined.insert({record.joined().rank(), record.joined().life()});
      return;
    case JournalRecord::kGivenUp:
      if (past_.seen.empty()) refuse_file("holds a call before the first observation", at);
      past_.given_up[past_.seen.size() - 1] = record.given_up();
      return;
    case JournalRecord::kHalted: past_.halted[past_.seen.size()] = record.halted(); return;
    case JournalRecord::kParametersSha256:
      past_.parameters_sha256 = record.parameters_sha256();
      return;
    case JournalRecord::kResumed: past_.resumed = record.resumed(); return;
    case JournalRecord::kRolledBack:
      past_.rolled_back = record.rolled_back();
      past_.core.committed = record.rolled_back().step();
      past_.core.committed_in = 0;
      return;
    case JournalRecord::kOpening:
    case JournalRecord::KIND_NOT_SET: break;
  }
  refuse_file("holds a record of an unknown kind", at);
}

void Journal::add_to_contents(const JournalLoss& loss, std::size_t at) {
  const std::size_t index = loss.index();
  if (index > past_.losses.size()) refuse_file("lacks the record of a loss", at);
  if (index == past_.losses.size()) past_.losses.emplace_back();
  past_.losses[index] = loss;
}

void Journal::add_to_contents(const JournalSnapshot& state) {
  past_.snapshot = state;
  past_.core = {.epoch = state.membership().epoch(),
                .committed = state.step(),
                .committed_in = state.committed_in(),
                .decided = state.membership().decided()};
  for (const Seat& seat : state.joined()) past_.joined.insert({seat.rank(), seat.life()});
  past_.started = state.started();
  if (state.has_resumed()) past_.resumed = state.resumed();
  if (state.has_rolled_back()) past_.rolled_back = state.rolled_back();
  past_.losses.assign(state.losses().begin(), state.losses().end());
  past_.strikes.assign(state.strikes().begin(), state.strikes().end());
  past_.removals.assign(state.removals().begin(), state.removals().end());
  past_.halted[0] = state.halted();
}

bool Journal::append_record(const JournalRecord& record) {
  if (file_ < 0) return false;
  const std::string bytes = framed(record.SerializeAsString());
  if (whole_ + bytes.size() > kMostBytes) {
    abandon_file(fmt::format("the journal has grown to {} MiB and could not be rewritten meanwhile",
                             kMostBytes >> 20));
    return false;
  }
  if (const int why = write_all(file_, bytes); why != 0) {
    abandon_file(std::strerror(why));
    return false;
  }
  whole_ += bytes.size();
  return true;
}

void Journal::begin_anew(const JournalSnapshot& state) {
  const std::string fresh = path_ + ".new";
  unlink(fresh.c_str());
  const int file =
      open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND | O_NOFOLLOW, 0600);
  if (file < 0) {
    snapshot_end_ = whole_;  // The next attempt follows as after a failed write.
    return;
  }
  JournalRecord record;
  *record.mutable_snapshot() = state;
  const std::string bytes =
      framed(opening().SerializeAsString()) + framed(record.SerializeAsString());
  if (write_all(file, bytes) != 0 || rename(fresh.c_str(), path_.c_str()) != 0) {
    close(file);
    unlink(fresh.c_str());
    snapshot_end_ = whole_;  // The next attempt follows once the file has grown by as much again.
    return;
  }
  close(std::exchange(file_, file));
  whole_ = snapshot_end_ = bytes.size();
}

/// The rest of the file is deleted, because it would only fill the disk that other processes need.
void Journal::abandon_file(const std::string& why) {
  close(std::exchange(file_, -1));
  abandoned_ = why;
  // The handler runs before the file is deleted: a successor without the file would start the run
  // from its beginning.
  if (decide_) decide_(why);
  unlink(path_.c_str());
}

void Journal::discard_file() {
  if (file_ < 0) return;
  close(std::exchange(file_, -1));
  unlink(path_.c_str());
}

}  // namespace orrery::live
