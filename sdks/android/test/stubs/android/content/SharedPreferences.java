package android.content;

public interface SharedPreferences {
    java.util.Map<String, ?> getAll();
    long getLong(String key, long other);
    boolean getBoolean(String key, boolean other);
    Editor edit();
    interface Editor {
        Editor putLong(String key, long value);
        Editor putBoolean(String key, boolean value);
        Editor remove(String key);
        void apply();
    }
}
