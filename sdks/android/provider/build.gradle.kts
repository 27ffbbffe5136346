plugins {
    alias(libs.plugins.android.library)
    alias(libs.plugins.kotlin.android)
}

android {
    namespace = "org.handspan.cetp"
}

dependencies {
    api(project(":json"))
    testImplementation(libs.junit)
    testImplementation(libs.robolectric)
}
