#include "traces/job_trace.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <zlib.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr std::int64_t kLatestSecond = 100LL * 365 * 24 * 3600;
constexpr std::int64_t kMostGpus = 1 << 20;

[[noreturn]] void fail_file(const std::string& path, const std::string& message) {
  throw Error(SourcePlace{.file = path, .line_text = ""}, message);
}

/// The unpacked text; zlib passes a file that is no gzip through as it is.
std::string read_text(const std::string& path) {
  if (std::filesystem::is_directory(path)) fail_file(path, "cannot be read: Is a directory");
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) fail_file(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  gzbuffer(file.get(), 1u << 17);
  std::string text;
  std::string chunk(std::size_t{1} << 18, '\0');
  while (true) {
    const int got = gzread(file.get(), chunk.data(), static_cast<unsigned>(chunk.size()));
    if (got < 0) fail_file(path, "cannot be read or unpacked: the file is damaged");
    if (got == 0) break;
    text.append(chunk, 0, static_cast<std::size_t>(got));
    if (text.size() > kMostBytes) fail_file(path, "holds more than 1 GiB unpacked");
  }
  int status = Z_OK;
  gzerror(file.get(), &status);
  if (status != Z_OK && status != Z_STREAM_END) {
    fail_file(path, "is cut short: the packed data ends too early");
  }
  return text;
}

/// Reads lines and fields, and knows where it is.
class CsvReader {
 public:
  CsvReader(const std::string& path, std::string_view text) : path_(path), rest_(text) {}

  /// The next line's fields; false at the end. A carriage return before the line's end is dropped.
  bool next_row(std::vector<std::string_view>& fields) {
    if (rest_.empty()) return false;
    ++line_number_;
    const std::size_t end = rest_.find('\n');
    line_ = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view{} : rest_.substr(end + 1);
    if (!line_.empty() && line_.back() == '\r') line_.remove_suffix(1);
    fields.clear();
    std::size_t start = 0;
    for (std::size_t comma; (comma = line_.find(',', start)) != std::string_view::npos;) {
      fields.push_back(line_.substr(start, comma - start));
      start = comma + 1;
    }
    fields.push_back(line_.substr(start));
    return true;
  }

  [[noreturn]] void fail(std::string_view at, const std::string& message) const {
    const int column = static_cast<int>(at.data() - line_.data()) + 1;
    throw Error(SourcePlace{path_, line_number_, column, std::string(line_.substr(0, 200))},
                message);
  }
  [[noreturn]] void fail_line(const std::string& message) const { fail(line_, message); }

  std::int64_t number(std::string_view field, const char* name, std::int64_t least,
                      std::int64_t most) const {
    std::int64_t value = 0;
    const char* const end = field.data() + field.size();
    const auto [stop, error] = std::from_chars(field.data(), end, value);
    if (error == std::errc::result_out_of_range || (error == std::errc{} && stop == end &&
                                                    (value < least || value > most))) {
      fail(field, fmt::format("{} is {}, not between {} and {}", name, field, least, most));
    }
    if (error != std::errc{} || stop != end) {
      fail(field, fmt::format("{} must be a whole number, not '{}'", name, field));
    }
    return value;
  }

  int line_number() const { return line_number_; }
  bool is_blank() const { return line_.empty(); }

 private:
  const std::string& path_;
  std::string_view rest_, line_;
  int line_number_ = 0;
};

/// Where each column stands.
struct Columns {
  std::size_t id = 0, submit = 0, gpus = 0, duration = 0;
  std::optional<std::size_t> pool;
  std::size_t count = 0;
};

Columns read_header(const CsvReader& reader, const std::vector<std::string_view>& fields) {
  const auto find = [&](std::string_view name) -> std::optional<std::size_t> {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (fields[i] != name) continue;
      if (found) reader.fail(fields[i], fmt::format("the column '{}' is there twice", name));
      found = i;
    }
    return found;
  };
  const auto need = [&](std::string_view name) {
    const std::optional<std::size_t> found = find(name);
    if (!found) {
      reader.fail_line(fmt::format("there is no column '{}' in this header; a job trace has "
                                   "job_id,submit_s,num_gpus,duration_s and perhaps vc", name));
    }
    return *found;
  };
  return {.id = need("job_id"), .submit = need("submit_s"), .gpus = need("num_gpus"),
          .duration = need("duration_s"), .pool = find("vc"), .count = fields.size()};
}

TraceJob read_job(const CsvReader& reader, const Columns& columns,
                  const std::vector<std::string_view>& fields) {
  if (fields.size() != columns.count) {
    reader.fail_line(fmt::format("this line has {} fields, the header has {}", fields.size(),
                                 columns.count));
  }
  TraceJob job;
  job.id = std::string(fields[columns.id]);
  if (job.id.empty()) reader.fail(fields[columns.id], "job_id is empty");
  job.submit_s = reader.number(fields[columns.submit], "submit_s", 0, kLatestSecond);
  job.gpus = static_cast<std::uint32_t>(
      reader.number(fields[columns.gpus], "num_gpus", 1, kMostGpus));
  job.duration_s = reader.number(fields[columns.duration], "duration_s", 0, kLatestSecond);
  job.line = reader.line_number();
  if (columns.pool) job.pool = std::string(fields[*columns.pool]);
  return job;
}

}  // namespace

std::vector<TraceJob> load_job_trace(const std::string& path) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  const std::string text = read_text(path);
  std::string_view marked = text;
  if (marked.starts_with(byte_order_mark)) marked.remove_prefix(byte_order_mark.size());
  CsvReader reader(path, marked);
  std::vector<std::string_view> fields;
  if (!reader.next_row(fields)) fail_file(path, "is empty: a job trace begins with a header");
  const Columns columns = read_header(reader, fields);
  std::vector<TraceJob> jobs;
  while (reader.next_row(fields)) {
    if (reader.is_blank()) continue;
    jobs.push_back(read_job(reader, columns, fields));
  }
  if (jobs.empty()) fail_file(path, "holds no jobs, only a header");
  return jobs;
}

}  // namespace orrery
