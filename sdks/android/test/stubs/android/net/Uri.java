package android.net;

/** A text, as far as the kit needs it. */
public final class Uri {
    private final String text;
    private Uri(String text) { this.text = text; }
    public static Uri parse(String text) { return new Uri(text); }
    public static Uri fromParts(String scheme, String part, String fragment) { return new Uri(scheme + ":" + part); }
    public static Uri withAppendedPath(Uri base, String part) { return new Uri(base.text + "/" + part); }
    public static String encode(String text) { return java.net.URLEncoder.encode(text, java.nio.charset.StandardCharsets.UTF_8); }
    public String getAuthority() { return text.replaceFirst("^[a-z]+://", "").replaceFirst("/.*$", ""); }
    @Override public String toString() { return text; }
}
