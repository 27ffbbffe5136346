package android.util;

public final class Log {
    public static int i(String tag, String text) { return 0; }
    public static int i(String tag, String text, Throwable thrown) { return 0; }
    public static int w(String tag, String text, Throwable thrown) { return 0; }
}
