#include "live/slurm/commands.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/slurm/answers.hpp"
#include "live/slurm/keeper_job.hpp"

namespace orrery::live {
namespace {

using Clock = std::chrono::steady_clock;

// Times are seconds since 1970, independent of the user's settings. The answer goes to descriptor
// 3, messages of the command into the last line.
constexpr const char* kRead =
    "export SLURM_TIME_FORMAT=%s LC_ALL=C; unset SQUEUE_FORMAT SQUEUE_STATES SQUEUE_USERS "
    "SQUEUE_PARTITION SQUEUE_ACCOUNT SQUEUE_FORMAT2\n"
    "why=$(\"$@\" 2>&1 >&3 </dev/null) && echo 'end of answer' >&3 || "
    "printf 'failed: %s\\n' \"$why\" >&3";
// Variables of sbatch would change the job.
constexpr const char* kForgetSbatch =
    "unset $(env | sed -n 's/^\\(SBATCH_[A-Z0-9_]*\\)=.*/\\1/p')\n";
// scontrol repeats each line on its standard output and complains on its standard error.
constexpr const char* kExecute =
    "export LC_ALL=C; command -v scontrol >/dev/null || { echo 'failed: scontrol: not found' >&3; "
    "exit 1; }\n"
    "scontrol >/dev/null 2>&3 <&3; echo 'end of answer' >&3";
// scontrol splits its lines at spaces and keeps quotes, so that other texts are arguments. $1:
// number of words of each update.
constexpr const char* kUpdate =
    "export LC_ALL=C; command -v scontrol >/dev/null || { echo 'failed: scontrol: not found' >&3; "
    "exit 1; }\n"
    "xargs -0 -n \"$1\" -P 4 scontrol >/dev/null 2>&3 <&3; echo 'end of answer' >&3";
// Commands of one process: they and their complaints fit into the buffer of a socket.
constexpr std::size_t kLinesAtOnce = 100;

class InstalledSlurm : public SlurmCommands {
 public:
  explicit InstalledSlurm(std::chrono::milliseconds patience) : patience_(patience) {}

  std::string read_jobs() override {
    return read({"squeue", "-r", "-a", "-h", "-t", "all", "-S", "i", "-O", kJobFields});
  }
  std::string read_nodes() override { return read({"scontrol", "-a", "-o", "show", "node"}); }
  std::string read_topology() override { return read({"scontrol", "show", "topology"}); }
  std::string read_configuration() override { return read({"scontrol", "show", "config"}); }
  std::string read_comments(const std::vector<std::string>& ids) override {
    return read(
        {"squeue", "-r", "-a", "-h", "-t", "all", "-j", list_of(ids), "-O", kCommentFields});
  }
  std::string read_keepers() override {
    return read({"squeue", "-a", "-h", "-t", "all", "-n", kKeeperName, "-O", kKeeperFields});
  }
  std::string submit_job(const std::vector<std::string>& words) override {
    std::vector<std::string> all{"-c", std::string(kForgetSbatch) + kRead, "sh", "sbatch"};
    all.insert(all.end(), words.begin(), words.end());
    const std::string answer = complete_answer(run_shell(all, "sbatch", {}), "sbatch");
    const std::string id = answer.substr(0, answer.find_first_not_of("0123456789"));
    if (id.empty()) {
      throw Error(ErrorKind::environment,
                  fmt::format("sbatch: expected the id of the job, got '{}'", answer));
    }
    return id;
  }
  std::string read_run_times(const std::vector<std::string>& ids) override {
    return read(
        {"squeue", "-r", "-a", "-h", "-t", "all", "-j", list_of(ids), "-O", kRunTimeFields});
  }
  std::string read_ends(const std::vector<std::string>& ids) override {
    return read({"sacct", "-P", "-n", "-X", "-j", list_of(ids), "-o", kEndFields});
  }
  std::vector<std::string> execute_commands(const std::vector<std::string>& lines) override {
    std::vector<std::string> complaints;
    for (std::size_t begin = 0; begin < lines.size(); begin += kLinesAtOnce) {
      std::string text;
      const std::size_t end = std::min(lines.size(), begin + kLinesAtOnce);
      for (std::size_t i = begin; i < end; ++i) text += lines[i] + "\n";
      add_lines(complete_answer(run_shell({"-c", kExecute, "sh"}, "scontrol", text), "scontrol"),
                complaints);
    }
    return complaints;
  }
  std::vector<std::string> execute_updates(
      const std::vector<std::vector<std::string>>& updates) override {
    std::map<std::size_t, std::vector<const std::vector<std::string>*>> by_words;
    for (const std::vector<std::string>& words : updates) by_words[words.size()].push_back(&words);
    std::vector<std::string> complaints;
    for (const auto& [count, all] : by_words) {
      for (std::size_t begin = 0; begin < all.size(); begin += kLinesAtOnce) {
        std::string text;
        const std::size_t end = std::min(all.size(), begin + kLinesAtOnce);
        for (std::size_t i = begin; i < end; ++i) {
          for (const std::string& word : *all[i]) text += word + '\0';
        }
        const std::vector<std::string> shell{"-c", kUpdate, "sh", std::to_string(count)};
        add_lines(complete_answer(run_shell(shell, "scontrol", text), "scontrol"), complaints);
      }
    }
    return complaints;
  }

 private:
  static std::string list_of(const std::vector<std::string>& ids) {
    return fmt::format("{}", fmt::join(ids, ","));
  }
  static void add_lines(const std::string& text, std::vector<std::string>& lines) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      lines.push_back(text.substr(begin, end - begin));
      if (end == std::string::npos) return;
      begin = end + 1;
    }
  }

  /// A shell that has ended before it read the input has said why in its answer.
  static void send_all(const ChildProcess& shell, const std::string& name,
                       const std::string& input) {
    if (input.empty()) return;
    const ssize_t sent = send(shell.channel(), input.data(), input.size(), MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(input.size()) || (sent < 0 && errno == EPIPE)) return;
    throw Error(ErrorKind::environment, fmt::format("{}: expected a reader, found none", name));
  }

  std::string read(const std::vector<std::string>& command) const {
    std::vector<std::string> words{"-c", kRead, "sh"};
    words.insert(words.end(), command.begin(), command.end());
    return complete_answer(run_shell(words, command.front(), {}), command.front());
  }

  /// Returns all that the shell writes to descriptor 3, after it has read `input` there.
  std::string run_shell(const std::vector<std::string>& words, const std::string& name,
                        const std::string& input) const {
    const Clock::time_point deadline = Clock::now() + patience_;
    ChildProcess shell("/bin/sh", words, ChildGroup::own);
    send_all(shell, name, input);
    shutdown(shell.channel(), SHUT_WR);
    std::string answer;
    while (true) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      pollfd waiting{shell.channel(), POLLIN, 0};
      const int ready = left.count() <= 0 ? 0 : poll(&waiting, 1, static_cast<int>(left.count()));
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) {
        throw Error(ErrorKind::environment,
                    fmt::format("{}: expected an answer within {:g} s, got {} bytes", name,
                                std::chrono::duration<double>(patience_).count(), answer.size()));
      }
      char bytes[65536];
      const ssize_t count = recv(shell.channel(), bytes, sizeof bytes, 0);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return answer;
      answer.append(bytes, static_cast<std::size_t>(count));
    }
  }

  const std::chrono::milliseconds patience_;
};

}  // namespace

std::unique_ptr<SlurmCommands> installed_slurm(std::chrono::milliseconds patience) {
  return std::make_unique<InstalledSlurm>(patience);
}

}  // namespace orrery::live
