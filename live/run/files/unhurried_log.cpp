#include "live/run/files/unhurried_log.hpp"

#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1e3; }

}  // namespace

void LogProgress::record_queued(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  queued_ += bytes;
}

void LogProgress::record_written(std::size_t bytes, bool flushed) {
  const std::scoped_lock lock(mutex_);
  written_ += bytes;
  if (flushed) flushed_ = written_;
}

void LogProgress::mark_final() {
  const std::scoped_lock lock(mutex_);
  is_final_ = true;
}

std::size_t LogProgress::waiting() const {
  const std::scoped_lock lock(mutex_);
  return queued_ - written_;
}

std::function<bool()> LogProgress::flush_query(const std::shared_ptr<const LogProgress>& log) {
  const std::scoped_lock lock(log->mutex_);
  return [log, all = log->queued_] {
    const std::scoped_lock now(log->mutex_);
    return log->is_final_ || log->flushed_ >= all;
  };
}

struct UnhurriedLog::Shared {
  std::unique_ptr<LogFile> file;  // Accessed by the jobs of the writer only.
  const std::shared_ptr<LogProgress> progress;
  std::mutex mutex;  // Guards the failure.
  std::optional<std::string> failure;

  /// Carries out an operation of the file, unless an earlier one has failed.
  template <class Act>
  void use_file(const Act& act) {
    {
      const std::scoped_lock lock(mutex);
      if (failure) return;
    }
    try {
      act(*file);
    } catch (const std::exception& error) {
      const auto* ours = dynamic_cast<const Error*>(&error);
      fail(ours != nullptr ? ours->message() : error.what());
    }
  }
  void append_bytes(const std::string& bytes) {
    const bool is_last = progress->waiting() == bytes.size();
    use_file([&](LogFile& log) {
      log.append_bytes(bytes);
      if (is_last) log.flush();
    });
    progress->record_written(bytes.size(), is_last);
  }
  void fail(std::string why) {
    const std::scoped_lock lock(mutex);
    if (!failure) failure = std::move(why);
    progress->mark_final();
  }
  void throw_if_failed() {
    const std::scoped_lock lock(mutex);
    if (failure) throw Error(ErrorKind::environment, *failure);
  }
};

UnhurriedLog::UnhurriedLog(std::unique_ptr<LogFile> plain, Patience patience)
    : patience_(patience),
      in_place_(plain->is_in_place()),
      progress_(std::make_shared<LogProgress>()),
      shared_(std::make_shared<Shared>(std::move(plain), progress_)),
      writer_(std::chrono::milliseconds(0)) {
  if (in_place_) progress_->mark_final();
}

UnhurriedLog::~UnhurriedLog() {
  // The writer closes the file. Bytes that are still pending after the time are not written.
  const auto patience = hangs_ ? std::chrono::milliseconds(0) : patience_.flush;
  writer_.run_job([shared = shared_] { shared->file.reset(); }, patience);
  shared_->fail("the log was closed before all bytes were written");
}

void UnhurriedLog::append_bytes(const std::string& bytes) {
  shared_->throw_if_failed();
  const std::size_t waiting = progress_->waiting();
  if (waiting + bytes.size() > patience_.waiting_bytes) {
    throw Error(ErrorKind::environment,
                fmt::format("the disk of the log does not respond: {} bytes are pending", waiting));
  }
  progress_->record_queued(bytes.size());
  writer_.add_job([shared = shared_, bytes] { shared->append_bytes(bytes); });
}

void UnhurriedLog::wait_for(std::function<void(LogFile&)> task,
                            std::chrono::milliseconds patience) {
  const auto act = [shared = shared_, task = std::move(task)] { shared->use_file(task); };
  const bool is_done = writer_.run_job(act, patience);
  shared_->throw_if_failed();
  if (is_done) return;
  hangs_ = true;
  throw Error(ErrorKind::environment,
              fmt::format("the disk of the log does not respond: no write within {:.1f} s",
                          seconds(patience)));
}

void UnhurriedLog::begin_at(std::uint64_t bytes) {
  wait_for([bytes](LogFile& file) { file.begin_at(bytes); }, patience_.flush);
}

void UnhurriedLog::flush() { shared_->throw_if_failed(); }

void UnhurriedLog::release_file() {
  wait_for([](LogFile& file) { file.release_file(); }, patience_.flush);
}

void UnhurriedLog::rename_into_place() {
  wait_for([](LogFile& file) { file.rename_into_place(); }, patience_.end);
}

}  // namespace orrery::live
