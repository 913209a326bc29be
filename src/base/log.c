/* log.c - "2026-01-31T12:34:56Z name: warning: text", one fwrite and one flush per line. */
#include "base/log.h"

#include <stdarg.h>
#include <time.h>

#include "base/str.h"

void ebb_log(const struct ebb_log *log, enum ebb_log_level level, const char *fmt, ...)
{
    static const char *const words[] = {"debug", "info", "warning", "error"};
    if (!log || !log->stream || level < log->level)
        return;
    struct ebb_str line = {0};
    struct tm utc = {0};
    char stamp[32];
    time_t now = time(NULL);
    gmtime_r(&now, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    ebb_str_printf(&line, "%s %s: %s: ", stamp, log->name ? log->name : "ebb",
                   (size_t)level < sizeof words / sizeof words[0] ? words[level] : "?");
    va_list args;
    va_start(args, fmt);
    ebb_str_vprintf(&line, fmt, args);
    va_end(args);
    for (size_t i = 0; i < line.length; i++) { /* one event, one line */
        if (line.data[i] == '\n' || line.data[i] == '\r')
            line.data[i] = ' ';
    }
    ebb_str_addc(&line, '\n');
    if (line.length > 0) {
        flockfile(log->stream);
        (void)!fwrite(line.data, 1, line.length, log->stream);
        fflush(log->stream);
        funlockfile(log->stream);
    }
    ebb_str_fini(&line);
}
