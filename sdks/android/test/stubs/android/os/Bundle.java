package android.os;

/** A map, which works. */
public class Bundle {
    private final java.util.LinkedHashMap<String, Object> map = new java.util.LinkedHashMap<>();
    public void putString(String key, String value) { map.put(key, value); }
    public void putInt(String key, int value) { map.put(key, value); }
    public String getString(String key) { return map.get(key) instanceof String ? (String) map.get(key) : null; }
    public Object get(String key) { return map.get(key); }
}
