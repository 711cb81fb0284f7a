#include "policies/record/recorder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/record/encoding.hpp"

namespace orrery {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

/// Returns a number as the base-128 varint that precedes each record.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
  return bytes;
}

bool is_special(const std::string& path) {
  std::error_code absent;
  const auto kind = std::filesystem::status(path, absent).type();
  return kind != std::filesystem::file_type::not_found &&
         kind != std::filesystem::file_type::regular;
}

/// File that is written under a temporary name and renamed when complete; deleted otherwise. An
/// existing file that is not a regular file (/dev/null, a pipe) is written in place, never
/// replaced. A link at the temporary name is not followed.
struct PlainFile : LogFile {
  explicit PlainFile(std::string log_path)
      : path(std::move(log_path)),
        partial(is_special(path) ? path : partial_log(path)),
        buffer(kBufferBytes) {
    const bool special = partial == path;
    const int how = special ? O_WRONLY | O_CLOEXEC : O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
    const int file = ::open(partial.c_str(), how, 0666);
    if (file < 0) fail();
    stream = ::fdopen(file, special ? "wb" : "r+b");
    if (stream == nullptr) fail();
    std::setvbuf(stream, buffer.data(), _IOFBF, buffer.size());
  }
  ~PlainFile() override {
    if (stream == nullptr) return;
    std::fclose(stream);
    if (partial != path) std::remove(partial.c_str());
  }
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  void begin_at(std::uint64_t bytes) override {
    if (partial == path) return;
    struct stat status {};
    if (::fstat(fileno(stream), &status) != 0) fail();
    if (static_cast<std::uint64_t>(status.st_size) < bytes) {
      throw Error(ErrorKind::environment,
                  fmt::format("the log {} has {} bytes, expected at least {}", partial,
                              status.st_size, bytes));
    }
    const auto at = static_cast<off_t>(bytes);
    if (::ftruncate(fileno(stream), at) != 0 || ::fseeko(stream, at, SEEK_SET) != 0) fail();
  }
  void append_bytes(const std::string& bytes) override {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stream) != bytes.size()) fail();
  }
  void flush() override {
    if (std::fflush(stream) != 0) fail();
  }
  void release_file() override { std::fclose(std::exchange(stream, nullptr)); }
  void rename_into_place() override {
    flush();
    const bool closed = std::fclose(std::exchange(stream, nullptr)) == 0;
    if (!closed) fail();
    if (partial != path && std::rename(partial.c_str(), path.c_str()) != 0) fail();
  }
  bool is_in_place() const override { return partial == path; }
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::environment,
                fmt::format("cannot write the log {}: {}", path, std::strerror(errno)));
  }

  std::string path, partial;
  std::vector<char> buffer;
  std::FILE* stream = nullptr;
};

}  // namespace

std::unique_ptr<LogFile> open_log(const std::string& path) {
  return std::make_unique<PlainFile>(path);
}

std::string partial_log(const std::string& path) { return path + ".partial"; }

std::uint64_t state_digest(const Archive& archive) {
  return std::stoull(sha256_hex(archive).substr(0, 16), nullptr, 16);
}

std::uint64_t calls_between_digests(std::size_t bytes) {
  constexpr std::size_t kPerCall = std::size_t{256} << 10;
  return bytes <= kLargeState ? 1 : std::max<std::uint64_t>(64, bytes / kPerCall);
}

std::uint64_t state_digest(const Policy& policy) {
  Archive archive;
  policy.save(archive);
  return state_digest(archive);
}

// ---- the trace ----------------------------------------------------------------------------

void DecisionTrace::add_decision(const Decision& decision, const Observation& seen) {
  lines_[decision.id] = {trace_line(decision, seen), std::nullopt};
}

void DecisionTrace::add_observation(const Observation& seen) {
  bool known = false;
  for (const Event& event : seen.events) {
    const auto* outcome = std::get_if<Decided>(&event);
    const auto line = outcome == nullptr ? lines_.end() : lines_.find(outcome->decision);
    if (line == lines_.end()) continue;
    line->second.status = outcome->status;
    known = true;
  }
  if (known) flush(false);
}

void DecisionTrace::flush(bool all) {
  constexpr std::array<std::string_view, 3> kStatus{"applied", "rejected", "expired"};
  for (auto next = lines_.begin(); next != lines_.end(); next = lines_.erase(next)) {
    const Line& line = next->second;
    if (!line.status && !all) return;
    const std::string_view status =
        line.status ? kStatus[static_cast<std::size_t>(*line.status)] : "open";
    hash_.update(fmt::format("{} {}\n", line.text, status));
  }
}

void DecisionTrace::save(ByteWriter& write) const {
  write(hash_.state());
  write(static_cast<std::uint64_t>(lines_.size()));
  for (const auto& [id, line] : lines_) {
    write(id);
    write(line.text);
    write(line.status ? static_cast<int>(*line.status) : -1);
  }
}

void DecisionTrace::load(ByteReader& read) {
  std::string hash;
  read(hash);
  hash_.restore_state(hash);
  lines_.clear();
  for (std::size_t count = read.size(); count > 0; --count) {
    DecisionId id{};
    int status = -1;
    read(id);
    Line& line = lines_[id];
    read(line.text);
    read(status);
    ensure(status <= static_cast<int>(Outcome::expired), "a saved outcome is one");
    if (status >= 0) line.status = static_cast<Outcome>(status);
  }
}

std::string DecisionTrace::finish_trace() {
  flush(true);
  return hash_.hex();
}

// ---- the recorder -------------------------------------------------------------------------

Recorder::Recorder(Backend& inner, const Policy& policy, const LogHeader& header, Options options)
    : inner_(inner),
      policy_(policy),
      header_(header),
      active_(options.hash || !options.path.empty()),
      without_(std::move(options.without)) {
  if (!options.path.empty()) file_ = options.open(options.path);
}

Recorder::~Recorder() = default;

void Recorder::begin(const Needs& needs) {
  LogRecord record;
  const Capabilities offered = inner_.capabilities();
  set_log_format(header_, kLogFormat);
  encode(Needs{offered.actions, offered.settings, 0}, *header_.mutable_offered());
  encode(needs, *header_.mutable_needs());
  *record.mutable_header() = header_;
  inner_.begin(needs);
  if (loaded_) return;
  with_file([](LogFile& file) { file.begin_at(0); });
  write(record);
}

namespace {

/// Fields of CallRecord and LogRecord that are messages, as they begin in the bytes of a record.
constexpr char kObservationTag = 1 << 3 | 2, kReadTag = 2 << 3 | 2, kCallTag = 2 << 3 | 2;
static_assert(CallRecord::kObservationFieldNumber == 1 && CallRecord::kReadFieldNumber == 2);
static_assert(LogRecord::kCallFieldNumber == 2);

/// Appends a field that is a message.
void append_field(char tag, const google::protobuf::MessageLite& message, std::string& out) {
  out += tag;
  out += varint(message.ByteSizeLong());
  message.AppendToString(&out);
}

}  // namespace

void Recorder::ReadSamples::fetch_samples(const SamplesRead& wish) {
  SamplesRead read;
  read_samples(*source_, wish, read);
  append_field(kReadTag, read, bytes_);
  add(read);
}

std::shared_ptr<const SampleRows> Recorder::ReadSamples::make_rows(SampleTable table, JobId job) {
  auto read = source_->rows(table, job);
  KnownRows& known = known_rows_[{table, job}];
  if (known.rows != read) {
    SamplesRead record;
    encode(*read, table, job, record);
    known.bytes.clear();
    append_field(kReadTag, record, known.bytes);
    known.rows = read;
  }
  bytes_ += known.bytes;
  return read;
}

std::shared_ptr<const SampleColumn> Recorder::ReadSamples::make_column(SampleField field,
                                                                       JobId job) {
  auto read = source_->column(field, job);
  SamplesRead without;
  encode(SampleColumn{}, field, job, without);
  const std::size_t begin = bytes_.size();
  append_field(kReadTag, without, bytes_);
  hash_.add_column(*read);
  columns_.push_back({begin, bytes_.size(), field, job, read});
  return read;
}

std::string Recorder::ReadSamples::stored_bytes() const {
  std::string out;
  std::size_t copied = 0;
  for (const Column& each : columns_) {
    out.append(bytes_, copied, each.begin - copied);
    SamplesRead read;
    encode(*each.values, each.field, each.job, read);
    append_field(kReadTag, read, out);
    copied = each.end;
  }
  return out.append(bytes_, copied, std::string::npos);
}

std::optional<Observation> Recorder::next() {
  std::optional<Observation> seen = inner_.next();
  if (!seen) return seen;
  events_ += seen->events.size();
  if (!active_) return seen;
  arena_.Reset();
  call_.shown = google::protobuf::Arena::CreateMessage<CallRecord>(&arena_);
  call_.rest = google::protobuf::Arena::CreateMessage<CallRecord>(&arena_);
  encode(*seen, *call_.shown->mutable_observation());
  trace_.add_observation(*seen);
  samples_.follow_source(seen->samples);
  seen_.emplace(Observation{.now = seen->now,
                            .sequence = seen->sequence,
                            .events = seen->events,
                            .cluster = seen->cluster,
                            .state = seen->state,
                            .jobs = seen->jobs,
                            .samples = samples_,
                            .resting = seen->resting});
  return seen_;
}

void Recorder::apply(const DecisionList& decisions) {
  ++calls_;
  notes_ += decisions.notes().size();
  if (active_) {
    CallRecord& call = *call_.rest;
    for (const Decision& decision : decisions.items()) {
      encode(decision, *call.add_decisions());
      trace_.add_decision(decision, *seen_);
    }
    for (const Nanos at : decisions.wake_times()) call.add_wakes(at);
    for (const Note& note : decisions.notes()) encode(note, *call.add_notes());
    call.set_state_digest(digest(!decisions.items().empty()));
    call.set_at_rest(decisions.is_resting());
    call.set_given_up(decisions.given_up());
    write_call();
  }
  inner_.apply(decisions);
}

std::uint64_t Recorder::digest(bool decided) {
  state_.behind = state_.behind || calls_ == 1 || policy_.has_changed();
  if (!state_.behind) return state_.digest;
  if (!decided && calls_ % state_.every != 0) return 0;
  state_.behind = false;
  state_.newest.clear();
  policy_.save(state_.newest);
  const bool first = calls_ == 1;
  if (first || state_.every > 1 || state_.newest != state_.digested) {
    state_.digest = state_digest(state_.newest);
    state_.every = calls_between_digests(state_.newest.size());
    state_.digested.clear();
    if (state_.every == 1) state_.digested.swap(state_.newest);
  }
  return state_.digest;
}

void Recorder::append_to_file(std::initializer_list<std::string_view> parts) {
  std::size_t size = 0;
  for (const std::string_view part : parts) size += part.size();
  std::string bytes = varint(size);
  bytes.reserve(bytes.size() + size);
  for (const std::string_view part : parts) bytes += part;
  with_file([&bytes](LogFile& file) { file.append_bytes(bytes); });
  written_ += bytes.size();
}

void Recorder::write(const LogRecord& record) {
  if (!active_) return;
  const std::string bytes = record.SerializeAsString();
  log_hash_.add_record(bytes);
  if (file_ != nullptr) append_to_file({bytes});
}

/// The reads stand between the observation and the other fields, by the numbers of the fields.
void Recorder::write_call() {
  std::string shown;
  append_field(kObservationTag, call_.shown->observation(), shown);
  const std::string rest = call_.rest->SerializeAsString();
  const auto head_of = [&](const std::string& reads) {
    return kCallTag + varint(shown.size() + reads.size() + rest.size());
  };
  log_hash_.add_record(head_of(samples_.bytes()));
  log_hash_.add_record(shown);
  log_hash_.add_record(samples_.bytes());
  log_hash_.add_record(rest);
  if (file_ == nullptr) return;
  const std::string reads = samples_.stored_bytes();
  append_to_file({head_of(reads), shown, reads, rest});
}

template <class Act>
void Recorder::with_file(const Act& act) {
  if (file_ == nullptr) return;
  try {
    act(*file_);
  } catch (const Error& error) {
    if (!without_ || !without_(error.message())) throw;
    file_.reset();
  }
}

void Recorder::flush() {
  with_file([](LogFile& file) { file.flush(); });
}

std::string Recorder::save() {
  flush();
  std::string saved;
  ByteWriter write(saved);
  write(calls_);
  write(events_);
  write(state_.digest);
  write(log_hash_.state());
  trace_.save(write);
  write(file_ != nullptr);
  write(file_ != nullptr ? written_ : std::uint64_t{0});
  write(notes_);
  return saved;
}

void Recorder::load(std::string_view saved) {
  ByteReader read(saved);
  std::string hash;
  bool had_file = false;
  std::uint64_t written = 0;
  read(calls_);
  read(events_);
  read(state_.digest);
  read(hash);
  log_hash_.restore_state(hash);
  trace_.load(read);
  read(had_file);
  read(written);
  read(notes_);
  loaded_ = true;
  state_.digested.clear();
  policy_.save(state_.digested);
  state_.digest = state_digest(state_.digested);
  state_.every = calls_between_digests(state_.digested.size());
  if (!had_file) file_.reset();  // the run had continued without it
  written_ = written;
  with_file([written](LogFile& file) { file.begin_at(written); });
}

void Recorder::release_log() {
  if (file_ != nullptr) file_->release_file();
  file_.reset();
}

void Recorder::finish_log() {
  if (!active_) return;
  log_sha256_ = log_hash_.hex();
  trace_sha256_ = trace_.finish_trace();
  LogRecord record;
  record.mutable_footer()->set_calls(calls_);
  record.mutable_footer()->set_decision_log_sha256(log_sha256_);
  record.mutable_footer()->set_decision_trace_sha256(trace_sha256_);
  write(record);
  with_file([](LogFile& file) { file.rename_into_place(); });
}

}  // namespace orrery
