// orrery new policy NAME: writes a small working policy and its test.
// orrery new jobs: writes a synthetic job log.
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "traces/jobs/job_generator.hpp"

namespace orrery::embedded {
extern const std::string_view policy_py, policy_test_py, built_in_hpp, built_in_test_cpp,
    project_cmake, project_policy_hpp, project_policy_cpp, project_policy_test_cpp, project_readme;
}

namespace orrery::cli {
namespace {

struct NewOptions {
  std::string name, folder = ".";
  bool cpp = false, built_in = false, python = true;
};

/// Forms of a policy's name: "lost-ranks" has file name "lost_ranks" and class name "LostRanks".
struct Words {
  std::string file, type;
};

Words words_of(const std::string& name) {
  Words words;
  bool begins = true;
  for (const char c : name) {
    const bool letter = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9';
    const bool good = begins ? letter : letter || digit || c == '-' || c == '_';
    if (!good) break;
    begins = c == '-' || c == '_';
    words.file += begins ? '_' : c;
    if (begins) continue;
    const bool capital = words.file.size() == 1 || words.file[words.file.size() - 2] == '_';
    words.type += static_cast<char>(capital && letter ? c - 'a' + 'A' : c);
  }
  if (!begins && words.file.size() == name.size()) return words;
  throw Error(ErrorKind::usage,
              fmt::format("NAME: expected small letters, digits and hyphens, each word beginning "
                          "with a letter (lost-ranks), got '{}'",
                          name));
}

std::string filled(std::string_view text, const std::string& name, const Words& words) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const auto take = [&](std::string_view mark, const std::string& word) {
      if (!rest.starts_with(mark)) return false;
      out += word;
      at += mark.size();
      return true;
    };
    if (take("@NAME@", name) || take("@FILE@", words.file) || take("@CLASS@", words.type)) continue;
    out += text[at++];
  }
  return out;
}

/// Writes a new file. Throws a usage error if the file exists.
void write_new(const std::filesystem::path& path, const std::string& text) {
  if (std::filesystem::exists(path)) {
    throw Error(ErrorKind::usage, fmt::format("{} exists already: give another NAME, or another "
                                              "folder with -o",
                                              path.string()));
  }
  write_file(path.string(), text);
}

/// File of a new policy: its path and its template.
struct NewFile {
  std::filesystem::path path;
  std::string_view text;
};

/// Writes all files, or none if one of them exists.
void write_files(const std::vector<NewFile>& files, const std::string& name, const Words& words) {
  for (const NewFile& file : files) {
    if (std::filesystem::exists(file.path)) write_new(file.path, {});  // throws
  }
  for (const NewFile& file : files) {
    write_new(file.path, filled(file.text, name, words));
    fmt::print("{}\n", file.path.string());
  }
}

int new_project(const NewOptions& options, const Words& words) {
  const std::filesystem::path folder = std::filesystem::path(options.folder) / words.file;
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw Error(ErrorKind::environment,
                fmt::format("expected a folder that can be made, found '{}': {}; choose another "
                            "one with -o",
                            folder.string(), failure.message()));
  }
  write_files({{folder / "CMakeLists.txt", embedded::project_cmake},
               {folder / (words.file + ".hpp"), embedded::project_policy_hpp},
               {folder / (words.file + ".cpp"), embedded::project_policy_cpp},
               {folder / (words.file + "_test.cpp"), embedded::project_policy_test_cpp},
               {folder / "README.md", embedded::project_readme}},
              options.name, words);
  fmt::print(
      "\nto try it:   cd {} && cmake -B build && cmake --build build\n"
      "             ctest --test-dir build\n"
      "             orrery simulate SCENARIO.yaml --policy build/{}\n"
      "README.md says where cmake finds the package OrreryPolicy\n",
      folder.string(), options.name);
  return 0;
}

/// Throws a usage error for a name that Python cannot import.
void check_python_name(const std::string& file) {
  constexpr std::array kKeywords{
      "and",    "as",   "assert", "async",  "await",    "break", "class", "continue", "def",
      "del",    "elif", "else",   "except", "finally",  "for",   "from",  "global",   "if",
      "import", "in",   "is",     "lambda", "nonlocal", "not",   "or",    "pass",     "raise",
      "return", "try",  "while",  "with",   "yield",    "orrery"};
  if (std::find(kKeywords.begin(), kKeywords.end(), file) == kKeywords.end()) return;
  throw Error(ErrorKind::usage, fmt::format("NAME: expected a name that Python can import, got "
                                            "'{0}', a word of its own; try {0}-policy",
                                            file));
}

int new_policy(const NewOptions& options) {
  const Words words = words_of(options.name);
  if (!options.cpp && !options.built_in) check_python_name(words.file);
  if (options.cpp) return new_project(options, words);
  const std::filesystem::path folder(options.folder);
  if (!options.built_in) {
    const auto test = folder / (words.file + "_test.py");
    write_files(
        {{folder / (words.file + ".py"), embedded::policy_py}, {test, embedded::policy_test_py}},
        options.name, words);
    fmt::print("\nto try it:   python -m pytest {}\n", test.string());
    return 0;
  }
  write_files({{folder / (words.file + ".hpp"), embedded::built_in_hpp},
               {folder / (words.file + "_test.cpp"), embedded::built_in_test_cpp}},
              options.name, words);
  fmt::print(
      "\nto try it:   orrery_test({0}_test SOURCES {0}_test.cpp LINK orrery_policies)\n"
      "to name it in scenarios:\n"
      "  message {1}Parameters {{}} in policies/parameters.proto\n"
      "  Entry{{\"{2}\", new_policy<{1}>, new_message<{1}Parameters>}} in the table of\n"
      "  policies/run/registry.cpp\n",
      words.file, words.type, options.name);
  return 0;
}

struct JobOptions {
  std::string out, like = "seren";
  JobDraw draw;
};

int new_jobs(const JobOptions& options) {
  OutputFile file(options.out);
  const std::vector<TraceJob> jobs = draw_jobs(job_mix(options.like), options.draw);
  file.write_and_rename(job_trace_csv(jobs));
  fmt::print(stderr, "{}: {} jobs like those of {} in {:.1f} days, {:.0f}% of {} GPUs\n",
             options.out, jobs.size(), options.like,
             static_cast<double>(jobs.back().submit_s) / 86400, 100 * options.draw.load,
             options.draw.gpus);
  return 0;
}

void add_new_jobs(CLI::App& command, Action& chosen) {
  const auto options = std::make_shared<JobOptions>();
  CLI::App* jobs = command.add_subcommand("jobs", "a synthetic job log, for orrery jobs");
  jobs->add_option("-o,--output", options->out, "CSV to write")->type_name("OUT.csv")->required();
  one_of(*jobs->add_option("--like", options->like, "cluster whose published means the jobs have"),
         job_mix_names())
      .capture_default_str();
  whole_number(*jobs->add_option("--jobs", options->draw.jobs, "number of jobs"), 2, 20'000'000)
      .type_name("N")
      ->capture_default_str();
  whole_number(*jobs->add_option("--gpus", options->draw.gpus, "GPUs of the cluster"), 1, 1'048'576)
      .type_name("N")
      ->capture_default_str();
  number(*jobs->add_option("--load", options->draw.load,
                           "share of these GPUs that the jobs "
                           "request"),
         0.01, 10)
      .type_name("SHARE")
      ->capture_default_str();
  number(*jobs->add_option("--habits", options->draw.habits,
                           "share of the variance of durations (logarithm) and of the kind of end "
                           "that belongs to the user, name and size of a job"),
         0, 1)
      .type_name("SHARE")
      ->capture_default_str();
  jobs->add_option("--seed", options->draw.seed, "seed: each value gives other jobs")
      ->type_name("N")
      ->capture_default_str();
  add_examples(*jobs, {"orrery new jobs --like philly --jobs 5000 --gpus 64 -o jobs.csv",
                       "orrery jobs jobs.csv --nodes 8 --gpus-per-node 8 --policy fifo,easy"});
  jobs->callback([options, &chosen] { chosen = [options] { return new_jobs(*options); }; });
}

}  // namespace

void add_new(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<NewOptions>();
  CLI::App* command = app.add_subcommand("new", "write a start for your own policy, or a job log");
  command->require_subcommand(1);
  CLI::App* policy = command->add_subcommand("policy", "a policy and its test");
  policy->add_option("NAME", options->name, "name in scenarios, for example lost-ranks")
      ->required();
  CLI::Option* cpp =
      policy->add_flag("--cpp", options->cpp, "in C++, a project that builds alone, in any folder");
  CLI::Option* built_in =
      policy->add_flag("--built-in", options->built_in, "in C++, for the sources of Orrery itself");
  built_in->excludes(cpp);
  policy->add_flag("--python", options->python, "in Python (the default)")
      ->excludes(cpp)
      ->excludes(built_in);
  policy->add_option("-o,--output", options->folder, "folder to write to")
      ->type_name("FOLDER")
      ->capture_default_str();
  add_examples(*policy, {"orrery new policy lost-ranks", "orrery new policy lost-ranks --cpp",
                         "orrery new policy lost-ranks --built-in -o policies/recovery"});
  add_new_jobs(*command, chosen);
  policy->callback([options, &chosen] { chosen = [options] { return new_policy(*options); }; });
}

}  // namespace orrery::cli
