/* What a double click on Redline.app starts: Python, inside this process, with the app's own library and nothing else.

   Redline                  the window
   Redline chat ...         a command, as `redline chat ...` in a terminal
   Redline -m NAME ...      Python, with Python's own options: so the app starts its children, the engine's host among
                            them, and so multiprocessing starts its own (sys.executable is this file)

   Nothing outside the bundle is looked at: no PYTHON* variable, no user site, no working folder. Nothing is written
   into it: no bytecode. Text is UTF-8 whatever the locale, as an app that Finder starts has none. The same file is
   compiled for Linux, where the tests start it. */

#include <Python.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#else
#include <unistd.h>
#endif

#define HOME_BELOW_CONTENTS "/Resources/python"

/* The real path of this program, or 0. */
static int own_path(char *path) {
    char found[PATH_MAX];
#ifdef __APPLE__
    uint32_t size = sizeof found;
    if (_NSGetExecutablePath(found, &size) != 0) return 0;
#else
    ssize_t size = readlink("/proc/self/exe", found, sizeof found - 1);
    if (size < 0) return 0;
    found[size] = '\0';
#endif
    return realpath(found, path) != NULL;
}

/* Of the path of Contents/MacOS/Redline: Contents/Resources/python. 0 if it does not fit. */
static int python_home(const char *program, char *home) {
    strcpy(home, program);
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(home, '/');
        if (slash == NULL) return 0;
        *slash = '\0';
    }
    if (strlen(home) + strlen(HOME_BELOW_CONTENTS) >= PATH_MAX) return 0;
    strcat(home, HOME_BELOW_CONTENTS);
    return 1;
}

/* Whether the arguments are Python's. Finder of old adds -psn_..., which is nobody's. */
static int for_python(int argc, char **argv) {
    return argc > 1 && argv[1][0] == '-' && argv[1][1] != '\0' && argv[1][1] != '-' && strcmp(argv[1], "-h") != 0 &&
           strncmp(argv[1], "-psn_", 5) != 0;
}

static PyStatus configure(PyConfig *config, const char *program, const char *home, int argc, char **argv) {
    int python = for_python(argc, argv);
    PyStatus status;
    config->write_bytecode = 0;
    config->parse_argv = python;
    if (!python) {
        if (argc > 1 && strncmp(argv[1], "-psn_", 5) == 0) argc = 1;
        status = PyConfig_SetString(config, &config->run_module, L"app");
        if (PyStatus_Exception(status)) return status;
    }
    status = PyConfig_SetBytesArgv(config, argc, argv);
    if (PyStatus_Exception(status)) return status;
    status = PyConfig_SetBytesString(config, &config->program_name, program);
    if (PyStatus_Exception(status)) return status;
    status = PyConfig_SetBytesString(config, &config->executable, program);
    if (PyStatus_Exception(status)) return status;
    status = PyConfig_SetBytesString(config, &config->base_executable, program);
    if (PyStatus_Exception(status)) return status;
    return PyConfig_SetBytesString(config, &config->home, home);
}

int main(int argc, char **argv) {
    char program[PATH_MAX], home[PATH_MAX];
    if (!own_path(program) || !python_home(program, home)) {
        fprintf(stderr, "Redline: its own folder cannot be found; install Redline again\n");
        return 1;
    }
    PyPreConfig before;
    PyPreConfig_InitIsolatedConfig(&before);
    before.utf8_mode = 1;
    PyStatus status = Py_PreInitialize(&before);
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    if (!PyStatus_Exception(status)) status = configure(&config, program, home, argc, argv);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        if (PyStatus_IsExit(status)) return status.exitcode;
        fprintf(stderr, "Redline: its Python cannot start (%s); install Redline again\n", status.err_msg);
        return 1;
    }
    return Py_RunMain();
}
