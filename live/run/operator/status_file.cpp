#include "live/run/operator/status_file.hpp"

#include <chrono>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "live/run/files/run_files.hpp"

namespace orrery::live {
namespace {

constexpr std::string_view kSocketPrefix = "unix:";
constexpr std::chrono::milliseconds kStatusInterval{1000};
// Longest wait for a file at the end of the run.
constexpr std::chrono::milliseconds kStatusPatience{2000};

/// Queues the newest text of a file.
void write_newest(FileWriter& writer, const std::string& path, std::string text) {
  writer.add_job(path, [path, text = std::move(text)] { replace_file(path, text); });
}

}  // namespace

std::string metric_label(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '\n') {
      out += "\\n";
    } else {
      if (letter == '"' || letter == '\\') out += '\\';
      out += letter;
    }
  }
  return out;
}

std::string metric_family(std::string_view name, std::string_view kind, std::string_view help,
                          std::string_view labels, double value) {
  return fmt::format("# HELP orrery_{0} {1}\n# TYPE orrery_{0} {2}\norrery_{0}{{{3}}} {4}\n", name,
                     help, kind, labels, value);
}

StatusFile::StatusFile(std::string folder, std::string metrics)
    : folder_(std::move(folder)),
      metrics_(std::move(metrics)),
      status_writer_(kStatusPatience),
      metrics_writer_(kStatusPatience) {
  if (!metrics_.starts_with(kSocketPrefix)) return;
  socket_.emplace(metrics_.substr(kSocketPrefix.size()));
}

StatusFile::~StatusFile() = default;

void StatusFile::add_line(Nanos at, std::string what) {
  if (what.empty()) return;
  lines_.push_back({++line_count_, at, std::move(what)});
  if (lines_.size() > kMostLines) lines_.pop_front();
}

bool StatusFile::is_due() const {
  const auto passed = Clock::now() - shown_at_;
  return passed > kStatusInterval || (line_count_ > shown_ && passed > kStatusInterval / 10);
}

void StatusFile::publish_status(const nlohmann::ordered_json& fields, std::string metrics) {
  shown_ = line_count_;
  shown_at_ = Clock::now();
  nlohmann::ordered_json out = fields;
  out["updated"] = std::time(nullptr);
  out["events"] = nlohmann::ordered_json::array();
  for (const Line& line : lines_) {
    out["events"].push_back(
        {{"number", line.number}, {"at_s", to_seconds(line.at)}, {"what", line.what}});
  }
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  write_newest(status_writer_, folder_ + "/" + kStatusFile,
               out.dump(-1, ' ', false, replace) + "\n");
  if (!has_metrics()) return;
  if (socket_) return socket_->set_text(std::move(metrics));
  write_newest(metrics_writer_, metrics_, std::move(metrics));
}

void StatusFile::show_last(const nlohmann::ordered_json& fields, std::string metrics) {
  publish_status(fields, std::move(metrics));
  status_writer_.wait_until_idle(kStatusPatience);
  constexpr std::chrono::milliseconds look{kLookMs};
  std::error_code error;
  const auto looked = std::filesystem::last_write_time(folder_ + "/" + kAttachedFile, error);
  if (error || std::filesystem::file_time_type::clock::now() - looked > 4 * look) return;
  std::this_thread::sleep_for(2 * look);
}

}  // namespace orrery::live
