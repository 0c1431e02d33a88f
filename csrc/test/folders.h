// A folder for one test, gone at its end; in memory where the system has such files, for thousands of small ones.
#pragma once

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "check.h"

inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* entries = ::opendir(folder.c_str());
  CHECK(entries != nullptr);
  while (const dirent* entry = ::readdir(entries)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  ::closedir(entries);
  return names;
}

class Folder {
 public:
  Folder() {
    const char* parent = std::getenv("TMPDIR");
    if (parent == nullptr) parent = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    std::string name = std::string(parent) + "/fleet-test-XXXXXX";
    CHECK(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { remove(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path;

 private:
  static void remove(const std::string& folder) {
    for (const std::string& name : names_in(folder)) {
      const std::string each = folder + "/" + name;
      if (::unlink(each.c_str()) != 0) remove(each);
    }
    ::rmdir(folder.c_str());
  }
};
